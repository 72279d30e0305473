//! `cargo xtask hostile`: the tests of `tests/it/hostile` at full size, with one table of their results.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{
    cargo::{cargo, run as run_command},
    test::integration,
};

pub(crate) const USAGE: &str = "hostile [--seed N] [--kills N]";

/// Sizes of the long form. The tests have small defaults.
const SIZES: [(&str, &str); 7] = [
    ("WINDLASS_HOSTILE_BODIES", "1000"),
    ("WINDLASS_HOSTILE_CALLERS", "200"),
    ("WINDLASS_HOSTILE_CONNECTIONS", "2000"),
    ("WINDLASS_HOSTILE_FILES", "60"),
    ("WINDLASS_HOSTILE_STARTS", "100"),
    ("WINDLASS_HOSTILE_TOOLS", "30000"),
    ("WINDLASS_HOSTILE_VALUES", "1000000"),
];
/// The prefix of a report line.
const MARK: &str = "hostile: ";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    run_command(&mut cargo(&["build", "-p", "windlass"]))?;
    let mut suite = integration(&["--", "--nocapture", "--test-threads", "2", "hostile::"])?;
    suite.envs(SIZES);
    suite.env("WINDLASS_HOSTILE_SEED", options.seed.to_string()).env("WINDLASS_KILL_SEED", options.seed.to_string());
    suite.env("WINDLASS_KILLS", options.kills.to_string());
    let mut process = suite.stdout(Stdio::piped()).spawn().context("the tests could not be started")?;
    let output = process.stdout.take().context("the tests have no output")?;
    let mut attacks = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        attacks.extend(Attack::parse(&line));
    }
    let passed = process.wait()?.success();
    println!("\nseed {}\n{}", options.seed, table(&attacks));
    if !passed || attacks.iter().any(|attack| attack.findings > 0) {
        bail!("there are findings; see the failed tests above");
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    seed: u64,
    kills: u64,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self { seed: 1, kills: 45 };
        for option in arguments.chunks(2) {
            let [name, number] = option else { bail!("usage: cargo xtask {USAGE}") };
            let place = match name.as_str() {
                "--seed" => &mut options.seed,
                "--kills" => &mut options.kills,
                _ => bail!("usage: cargo xtask {USAGE}"),
            };
            *place = number.parse().with_context(|| format!("{name} {number}: write a whole number"))?;
        }
        Ok(options)
    }
}

/// The report of one test.
#[derive(Debug, PartialEq, Eq)]
struct Attack {
    name: String,
    counts: BTreeMap<String, u64>,
    findings: u64,
}

impl Attack {
    /// Parses a line of output. The test harness may have written the test's name before it.
    fn parse(line: &str) -> Option<Self> {
        let (_, report) = line.split_once(MARK)?;
        let report: Value = serde_json::from_str(report).ok()?;
        let counts = report["counts"].as_object()?.iter();
        Some(Self {
            name: report["attack"].as_str()?.to_owned(),
            counts: counts.map(|(what, count)| (what.clone(), count.as_u64().unwrap_or_default())).collect(),
            findings: report["findings"].as_u64()?,
        })
    }
}

fn table(attacks: &[Attack]) -> String {
    let width = attacks.iter().map(|attack| attack.name.len()).max().unwrap_or_default();
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    let mut text = String::new();
    for Attack { name, counts, findings } in attacks {
        counts.iter().for_each(|(what, count)| *totals.entry(what).or_default() += count);
        let counts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        text.push_str(&format!("{name:<width$}  {findings} findings  {}\n", counts.join(", ")));
    }
    let findings: u64 = attacks.iter().map(|attack| attack.findings).sum();
    let totals: Vec<String> = totals.iter().map(|(what, count)| format!("{count} {what}")).collect();
    text.push_str(&format!("{} attacks: {findings} findings; {}", attacks.len(), totals.join(", ")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_found_in_the_output_and_summed_up() {
        let lines = [
            r#"test hostile::ssrf ... hostile: {"attack":"ssrf","counts":{"requests":54},"findings":0}"#,
            r#"hostile: {"attack":"kills","counts":{"kills":45,"requests":10},"findings":2}"#,
            "test result: ok",
        ];
        let attacks: Vec<Attack> = lines.iter().filter_map(|line| Attack::parse(line)).collect();
        assert_eq!(
            table(&attacks),
            "ssrf   0 findings  54 requests\nkills  2 findings  45 kills, 10 requests\n2 attacks: 2 findings; 45 kills, 64 requests"
        );
    }

    #[test]
    fn seed_and_kills_can_be_chosen() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Options::parse(&words).map_err(|error| error.to_string())
        };
        assert_eq!(parse(&[]), Ok(Options { seed: 1, kills: 45 }));
        assert_eq!(parse(&["--kills", "500", "--seed", "7"]), Ok(Options { seed: 7, kills: 500 }));
        assert_eq!(parse(&["--kills"]), Err(format!("usage: cargo xtask {USAGE}")));
        assert_eq!(parse(&["--kills", "x"]), Err("--kills x: write a whole number".to_owned()));
    }
}
