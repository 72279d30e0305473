//! `cargo xtask fuzz`: the API's parser under libFuzzer, starting from requests of real clients.
//!
//! It uses the workspace's compiler: `RUSTC_BOOTSTRAP` enables coverage counters. Sanitizers would need a nightly
//! compiler and are for unsafe code, of which there is none.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{
    cargo::{root, run as run_command, target},
    tools,
};

pub(crate) const USAGE: &str = "fuzz [--seconds N] [--seed N]";
const TARGET: &str = "spec";
/// Recorded requests of SDKs, by kind.
const RECORDED: &str = "crates/api/fixtures/requests.json";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let Sizes { seconds, seed } = Sizes::parse(arguments)?;
    let cargo_fuzz = tools::cargo_fuzz()?;
    let folder = target().join("fuzz");
    let seeds = folder.join("seeds");
    println!("{} recorded requests to begin with", plant(&seeds)?);
    // The fuzz target uses the same versions of dependencies as the workspace.
    fs::copy(root().join("Cargo.lock"), root().join("fuzz/Cargo.lock")).context("Cargo.lock could not be copied")?;
    let found = folder.join("corpus");
    fs::create_dir_all(&found).with_context(|| format!("{} could not be created", found.display()))?;
    let mut command = Command::new(cargo_fuzz);
    command.current_dir(root()).env("RUSTC_BOOTSTRAP", "1").args(["run", TARGET]).arg(&found).arg(&seeds);
    command.args(["--sanitizer", "none", "--codegen-units", "16", "--target-dir"]).arg(folder.join("build"));
    command.args(["--", &format!("-max_total_time={seconds}"), &format!("-seed={seed}"), "-max_len=65536"]);
    command.args(["-print_final_stats=1", "-timeout=10"]);
    run_command(&mut command)
}

#[derive(Debug, PartialEq, Eq)]
struct Sizes {
    seconds: u64,
    seed: u64,
}

impl Sizes {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut sizes = Self { seconds: 60, seed: 1 };
        for option in arguments.chunks(2) {
            let place = match option {
                [name, _] if name == "--seconds" => &mut sizes.seconds,
                [name, _] if name == "--seed" => &mut sizes.seed,
                _ => bail!("usage: cargo xtask {USAGE}"),
            };
            let (name, number) = (&option[0], &option[1]);
            let above_zero = number.parse().ok().filter(|number| *number > 0);
            *place = above_zero.with_context(|| format!("{name} {number}: write a whole number above zero"))?;
        }
        Ok(sizes)
    }
}

/// Writes one file for each recorded body and returns their number.
fn plant(folder: &Path) -> Result<usize> {
    fs::create_dir_all(folder).with_context(|| format!("{} could not be created", folder.display()))?;
    let recorded = fs::read(root().join(RECORDED)).with_context(|| format!("{RECORDED} cannot be read"))?;
    let bodies = bodies(&serde_json::from_slice(&recorded)?);
    for (name, body) in &bodies {
        fs::write(folder.join(name), body)?;
    }
    Ok(bodies.len())
}

fn bodies(recorded: &Value) -> Vec<(String, String)> {
    let kinds = recorded.as_object().into_iter().flatten();
    let each = kinds.flat_map(|(kind, requests)| {
        let requests = requests.as_array().into_iter().flatten().enumerate();
        requests.map(move |(index, request)| (format!("{kind}-{index}"), request["body"].to_string()))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_recorded_body_is_a_seed() {
        let recorded = json!({"runs": [{"case": "a", "body": {"x": 1}}, {"body": 2}], "messages": [{"body": "m"}]});
        let expected = [("messages-0", "\"m\""), ("runs-0", "{\"x\":1}"), ("runs-1", "2")];
        assert_eq!(bodies(&recorded), expected.map(|(name, body)| (name.to_owned(), body.to_owned())));
    }

    #[test]
    fn sizes_can_be_chosen() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Sizes::parse(&words).map_err(|error| error.to_string())
        };
        assert_eq!(parse(&[]), Ok(Sizes { seconds: 60, seed: 1 }));
        assert_eq!(parse(&["--seconds", "5", "--seed", "2"]), Ok(Sizes { seconds: 5, seed: 2 }));
        assert_eq!(parse(&["--seconds", "0"]), Err("--seconds 0: write a whole number above zero".to_owned()));
        assert_eq!(parse(&["--fast", "1"]), Err(format!("usage: cargo xtask {USAGE}")));
    }
}
