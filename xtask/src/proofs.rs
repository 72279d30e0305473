//! The longer proofs: filters on the integration binary whose size is set from outside.

use anyhow::{Context, Result, bail};

use crate::{
    cargo::{cargo, run},
    test::integration,
};

/// One command that runs a part of the integration tests at a chosen size.
#[derive(Debug)]
pub(crate) struct Proof {
    command: &'static str,
    pub(crate) description: &'static str,
    /// Which tests.
    filter: &'static str,
    /// The variable those tests read.
    variable: &'static str,
    size: Size,
    /// Unit tests with the same purpose, run first with `PROPTEST_CASES`.
    unit_filter: Option<&'static str>,
}

/// What the variable is set to.
#[derive(Debug)]
enum Size {
    /// The option that names it, and its value when the option is absent.
    Option(&'static str, u64),
    /// As above, and the variable for the seed, which `--seed` sets.
    Seeded(&'static str, u64, &'static str),
    /// Always this.
    Fixed(u64),
}

pub(crate) const ALL: &[Proof] = &[
    Proof {
        command: "props",
        description: "the invariants of a run under random scripts, answers and crashes",
        filter: "proofs::invariants",
        variable: "WINDLASS_PROP_CASES",
        size: Size::Option("--cases", 1000),
        unit_filter: Some("invariants"),
    },
    Proof {
        command: "chaos",
        description: "workers killed at random while runs are under way",
        filter: "proofs::chaos",
        variable: "WINDLASS_CHAOS_RUNS",
        size: Size::Option("--runs", 100),
        unit_filter: None,
    },
    Proof {
        command: "kill",
        description: "the embedded engine killed at random under load",
        filter: "engine::kill",
        variable: "WINDLASS_KILLS",
        size: Size::Seeded("--times", 200, "WINDLASS_KILL_SEED"),
        unit_filter: None,
    },
    Proof {
        command: "flat",
        description: "history bytes per turn do not grow with the conversation",
        filter: "proofs::flat_history",
        variable: "WINDLASS_FLAT_TURNS",
        size: Size::Option("--turns", 1000),
        unit_filter: None,
    },
    Proof {
        command: "parked",
        description: "runs that wait for a long time cost nothing and lose nothing",
        filter: "proofs::long_wait",
        variable: "WINDLASS_PARKED_RUNS",
        size: Size::Option("--runs", 1000),
        unit_filter: None,
    },
    Proof {
        command: "record-histories",
        description: "record the histories that later versions must replay",
        filter: "replay::",
        variable: "WINDLASS_RECORD_HISTORIES",
        size: Size::Fixed(1),
        unit_filter: None,
    },
];

pub(crate) fn find(command: &str) -> Option<&'static Proof> {
    ALL.iter().find(|proof| proof.command == command)
}

impl Proof {
    pub(crate) fn usage(&self) -> String {
        match self.size {
            Size::Option(option, _) => format!("{} [{option} N]", self.command),
            Size::Seeded(option, ..) => format!("{} [{option} N] [--seed S]", self.command),
            Size::Fixed(_) => self.command.to_owned(),
        }
    }

    pub(crate) fn run(&self, arguments: &[String]) -> Result<()> {
        let (size, seed) = self.parse(arguments)?;
        let size = size.to_string();
        if let Some(filter) = self.unit_filter {
            let mut unit = cargo(&["test", "-p", "windlass-core", "--lib", "--", filter, "--nocapture"]);
            run(unit.env("PROPTEST_CASES", &size))?;
        }
        run(&mut cargo(&["build", "-p", "windlass"]))?;
        let mut proof = integration(&["--", self.filter, "--nocapture", "--test-threads", "1"])?;
        if let (Size::Seeded(.., variable), Some(seed)) = (&self.size, seed) {
            proof.env(variable, seed.to_string());
        }
        run(proof.env(self.variable, &size))
    }

    /// The size and, if it was given, the seed.
    fn parse(&self, arguments: &[String]) -> Result<(u64, Option<u64>)> {
        let (Size::Option(_, size) | Size::Seeded(_, size, _) | Size::Fixed(size)) = &self.size;
        let (mut size, mut seed) = (*size, None);
        for pair in arguments.chunks(2) {
            match (&self.size, pair) {
                (Size::Option(option, _) | Size::Seeded(option, ..), [given, text]) if given == option => {
                    size = number(option, text)?;
                }
                (Size::Seeded(..), [given, text]) if given == "--seed" => seed = Some(number("--seed", text)?),
                _ => bail!("usage: cargo xtask {}", self.usage()),
            }
        }
        Ok((size, seed))
    }
}

fn number(option: &str, text: &str) -> Result<u64> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.with_context(|| format!("{option} {text}: write a whole number above zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_from_the_option_or_the_table() {
        let cases: [(&str, &[&str], Result<(u64, Option<u64>), &str>); 12] = [
            ("props", &[], Ok((1000, None))),
            ("props", &["--cases", "20"], Ok((20, None))),
            ("record-histories", &[], Ok((1, None))),
            ("kill", &[], Ok((200, None))),
            ("kill", &["--seed", "7"], Ok((200, Some(7)))),
            ("kill", &["--times", "20", "--seed", "7"], Ok((20, Some(7)))),
            ("props", &["--seed", "7"], Err("usage: cargo xtask props [--cases N]")),
            ("props", &["--cases"], Err("usage: cargo xtask props [--cases N]")),
            ("props", &["--runs", "20"], Err("usage: cargo xtask props [--cases N]")),
            ("props", &["--cases", "0"], Err("--cases 0: write a whole number above zero")),
            ("chaos", &["--runs", "many"], Err("--runs many: write a whole number above zero")),
            ("record-histories", &["--runs", "1"], Err("usage: cargo xtask record-histories")),
        ];
        for (command, arguments, expected) in cases {
            let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            let parsed = find(command).unwrap().parse(&arguments).map_err(|error| error.to_string());
            assert_eq!(parsed, expected.map_err(str::to_owned), "{command} {arguments:?}");
        }
    }

    #[test]
    fn commands_are_told_apart() {
        assert_eq!(find("test").map(Proof::usage), None);
        for proof in ALL {
            assert_eq!(ALL.iter().filter(|other| other.command == proof.command).count(), 1, "{proof:?}");
        }
    }
}
