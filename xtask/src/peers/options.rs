//! What `cargo xtask bench --peers` is asked to do.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::system::System;

pub(super) const USAGE: &str =
    "bench --peers [--rounds N] [--only NAME,…] [--parked N] [--quick] [--json] [--bin PATH]";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) rounds: u32,
    pub(super) systems: Vec<System>,
    pub(super) sizes: Sizes,
    pub(super) json: bool,
    /// An existing `windlass`; without one, a release build is made.
    pub(super) windlass: Option<PathBuf>,
}

/// Numbers of runs. Their shapes are those of `windlass bench`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) latency: u32,
    pub(super) throughput: u32,
    pub(super) signal: u32,
    pub(super) parked: u32,
    pub(super) recovery: u32,
}

const FULL: Sizes = Sizes { latency: 10, throughput: 200, signal: 200, parked: 1_000, recovery: 100 };
const QUICK: Sizes = Sizes { latency: 3, throughput: 20, signal: 20, parked: 50, recovery: 20 };

impl Options {
    pub(super) fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self { rounds: 3, systems: System::ALL.to_vec(), sizes: FULL, json: false, windlass: None };
        let mut parked = None;
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().with_context(|| format!("{word} needs a value; usage: cargo xtask {USAGE}"));
            match word.as_str() {
                "--peers" => {}
                "--quick" => options.sizes = QUICK,
                "--json" => options.json = true,
                "--rounds" => options.rounds = above_zero(word, value()?)?,
                "--parked" => parked = Some(above_zero(word, value()?)?),
                "--bin" => options.windlass = Some(PathBuf::from(value()?)),
                "--only" => options.systems = value()?.split(',').map(System::named).collect::<Result<_>>()?,
                _ => bail!("there is no option {word}; usage: cargo xtask {USAGE}"),
            }
        }
        options.sizes.parked = parked.unwrap_or(options.sizes.parked);
        Ok(options)
    }
}

fn above_zero(option: &str, number: &str) -> Result<u32> {
    let number = number.parse().ok().filter(|number| *number > 0);
    number.with_context(|| format!("{option}: write a whole number above zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn everything_is_measured_three_times_by_default() {
        let options = parse("--peers").unwrap();
        assert_eq!((options.rounds, options.systems.len(), options.sizes), (3, System::ALL.len(), FULL));
    }

    #[test]
    fn systems_and_sizes_can_be_chosen_in_any_order() {
        let options = parse("--parked 10000 --peers --only dbos,restate --rounds 1 --quick --bin w").unwrap();
        let expected = Options {
            rounds: 1,
            systems: vec![System::Dbos, System::Restate],
            sizes: Sizes { parked: 10_000, ..QUICK },
            json: false,
            windlass: Some(PathBuf::from("w")),
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            (
                "--peers --only celery",
                "there is no system celery; there are: windlass, no-disk, sdk, temporal, restate, dbos, langgraph",
            ),
            ("--peers --rounds 0", "--rounds: write a whole number above zero"),
            ("--peers --rounds", "--rounds needs a value"),
            ("--peers --fast", "there is no option --fast"),
        ];
        for (line, expected) in cases {
            let refusal = parse(line).unwrap_err();
            assert!(refusal.starts_with(expected), "{line}: {refusal}");
        }
    }
}
