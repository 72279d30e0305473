//! `cargo xtask soak`: mixed load on a release `windlass dev` for hours, with `kill -9` at random moments.
//!
//! The load, its ledger and the verdict are the test `soak` of the integration tests, which run its short form. The plot goes
//! to `docs/images/soak.svg`, the samples to `target/soak/soak.csv`.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail};

use crate::cargo::{Profile, cargo, program, root, run as run_command, target};

pub(crate) const USAGE: &str = "soak [--hours N | --minutes N] [--seed N] [--bin PATH]";
/// Slopes of a shorter soak mean nothing, so its plot does not replace the one in the documentation.
const WORTH_KEEPING: u64 = 60;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let soak = Soak::parse(arguments)?;
    let windlass = match soak.windlass {
        Some(windlass) => {
            fs::canonicalize(&windlass).with_context(|| format!("no program at {}", windlass.display()))?
        }
        None => {
            run_command(&mut cargo(&["build", "--release", "-p", "windlass"]))?;
            program(Profile::Release, "windlass")
        }
    };
    let folder = target().join("soak");
    let mut test = cargo(&["test", "-p", "windlass-tests", "--test", "it", "--", "soak::", "--nocapture"]);
    test.args(["--test-threads", "1"]).env("WINDLASS_BIN", windlass).env("WINDLASS_SOAK_FOLDER", &folder);
    test.env("WINDLASS_SOAK_SECONDS", (soak.minutes * 60).to_string());
    test.env("WINDLASS_SOAK_SEED", soak.seed.to_string());
    let verdict = run_command(&mut test);
    if soak.minutes >= WORTH_KEEPING {
        // Also of a soak that failed: the plot shows why.
        let plot = root().join("docs/images/soak.svg");
        fs::copy(folder.join("soak.svg"), &plot).with_context(|| format!("{} cannot be written", plot.display()))?;
    }
    println!("samples: {}", folder.join("soak.csv").display());
    verdict
}

#[derive(Debug, PartialEq, Eq)]
struct Soak {
    minutes: u64,
    seed: u64,
    windlass: Option<PathBuf>,
}

impl Soak {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut soak = Self { minutes: 120, seed: 1, windlass: None };
        for option in arguments.chunks(2) {
            let [name, value] = option else { bail!("usage: cargo xtask {USAGE}") };
            let number = || {
                let number = value.parse::<u64>().ok().filter(|number| *number > 0);
                number.with_context(|| format!("{name} {value}: write a whole number above zero"))
            };
            match name.as_str() {
                "--hours" => soak.minutes = 60 * number()?,
                "--minutes" => soak.minutes = number()?,
                "--seed" => soak.seed = number()?,
                "--bin" => soak.windlass = Some(PathBuf::from(value)),
                _ => bail!("usage: cargo xtask {USAGE}"),
            }
        }
        Ok(soak)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soak_takes_two_hours_unless_told_otherwise() {
        let parse = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            Soak::parse(&words).map_err(|error| error.to_string())
        };
        assert_eq!(parse(""), Ok(Soak { minutes: 120, seed: 1, windlass: None }));
        let short = Soak { minutes: 10, seed: 7, windlass: Some(PathBuf::from("w")) };
        assert_eq!(parse("--minutes 10 --seed 7 --bin w"), Ok(short));
        assert_eq!(parse("--hours 3").map(|soak| soak.minutes), Ok(180));
        assert_eq!(parse("--hours 0"), Err("--hours 0: write a whole number above zero".to_owned()));
        assert_eq!(parse("--days 1"), Err(format!("usage: cargo xtask {USAGE}")));
    }
}
