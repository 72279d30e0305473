//! The longer tests: filters on a test binary, with a size that is passed in a variable.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{
    cargo::{cargo, run},
    postgres,
    test::integration,
};

/// One command that runs a part of the tests at a chosen size.
#[derive(Debug)]
pub(crate) struct Proof {
    command: &'static str,
    pub(crate) description: &'static str,
    /// The test binary.
    tests: Tests,
    /// The filter of test names.
    filter: &'static str,
    /// The variable those tests read.
    variable: &'static str,
    size: Size,
    /// The option for the first case or the random seed, if the tests have one.
    first: Option<First>,
    /// An option without a number, and the variable that is set for it.
    switch: Option<(&'static str, &'static str)>,
    /// Unit tests with the same purpose, run first with `PROPTEST_CASES`.
    unit_filter: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
enum Tests {
    Integration,
    Store,
}

/// The option of the first case, and its variable.
#[derive(Debug)]
struct First {
    option: &'static str,
    variable: &'static str,
    /// The size if only this option is given.
    alone: u64,
}

/// The value of the variable.
#[derive(Debug)]
enum Size {
    /// The option of the size, and its default.
    Option(&'static str, u64),
    /// A fixed value.
    Fixed(u64),
}

pub(crate) const ALL: &[Proof] = &[
    Proof {
        command: "props",
        description: "the invariants of a run under random scripts, answers and crashes",
        tests: Tests::Integration,
        filter: "proofs::invariants",
        variable: "WINDLASS_PROP_CASES",
        size: Size::Option("--cases", 1000),
        first: None,
        switch: None,
        unit_filter: Some("invariants"),
    },
    Proof {
        command: "chaos",
        description: "workers killed at random while runs are under way",
        tests: Tests::Integration,
        filter: "proofs::chaos",
        variable: "WINDLASS_CHAOS_RUNS",
        size: Size::Option("--runs", 100),
        first: None,
        switch: None,
        unit_filter: None,
    },
    Proof {
        command: "flat",
        description: "history bytes per turn do not grow with the conversation",
        tests: Tests::Integration,
        filter: "proofs::flat_history",
        variable: "WINDLASS_FLAT_TURNS",
        size: Size::Option("--turns", 1000),
        first: None,
        switch: None,
        unit_filter: None,
    },
    Proof {
        command: "parked",
        description: "runs that wait for a long time cost nothing and lose nothing",
        tests: Tests::Integration,
        filter: "proofs::long_wait",
        variable: "WINDLASS_PARKED_RUNS",
        size: Size::Option("--runs", 1000),
        first: None,
        switch: None,
        unit_filter: None,
    },
    Proof {
        command: "diff",
        description: "the engine answers like the real server, whatever the script; --control: the server like itself",
        tests: Tests::Integration,
        filter: "diff::",
        variable: "WINDLASS_DIFF_SEEDS",
        size: Size::Option("--seeds", 200),
        first: Some(First { option: "--seed", variable: "WINDLASS_DIFF_SEED", alone: 1 }),
        switch: Some(("--control", "WINDLASS_DIFF_CONTROL")),
        unit_filter: None,
    },
    Proof {
        command: "specs",
        description: "the times of a schedule's spec are those of the real server, whatever the spec",
        tests: Tests::Integration,
        filter: "schedules::specs",
        variable: "WINDLASS_SPECS",
        size: Size::Option("--specs", 500),
        first: Some(First { option: "--seed", variable: "WINDLASS_SPECS_SEED", alone: 1 }),
        switch: None,
        unit_filter: None,
    },
    Proof {
        command: "stores",
        description: "Postgres and SQLite answer alike, whatever the calls",
        tests: Tests::Store,
        filter: "differential::",
        variable: "WINDLASS_STORE_SEEDS",
        size: Size::Option("--seeds", 200),
        first: Some(First { option: "--seed", variable: "WINDLASS_STORE_SEED", alone: 1 }),
        switch: None,
        unit_filter: None,
    },
    Proof {
        command: "kill",
        description: "the engine, and the server behind its API, killed under load lose nothing they acknowledged",
        tests: Tests::Integration,
        // Of `engine::kill` and `hostile::kill`.
        filter: "kill::",
        variable: "WINDLASS_KILLS",
        size: Size::Option("--times", 200),
        first: Some(First { option: "--seed", variable: "WINDLASS_KILL_SEED", alone: 200 }),
        switch: None,
        unit_filter: None,
    },
    Proof {
        command: "record-histories",
        description: "record the histories that later versions must replay",
        tests: Tests::Integration,
        filter: "replay::",
        variable: "WINDLASS_RECORD_HISTORIES",
        size: Size::Fixed(1),
        first: None,
        switch: None,
        unit_filter: None,
    },
];

pub(crate) fn find(command: &str) -> Option<&'static Proof> {
    ALL.iter().find(|proof| proof.command == command)
}

impl Proof {
    pub(crate) fn usage(&self) -> String {
        let size = match self.size {
            Size::Option(option, _) => format!("{} [{option} N]", self.command),
            Size::Fixed(_) => self.command.to_owned(),
        };
        let first = self.first.as_ref().map_or_else(String::new, |first| format!(" [{} N]", first.option));
        let switch = self.switch.map_or_else(String::new, |(option, _)| format!(" [{option}]"));
        size + &first + &switch
    }

    pub(crate) fn run(&self, arguments: &[String]) -> Result<()> {
        let Sizes { size, first, switched } = self.parse(arguments)?;
        let size = size.to_string();
        if let Some(filter) = self.unit_filter {
            let mut unit = cargo(&["test", "-p", "windlass-core", "--lib", "--", filter, "--nocapture"]);
            run(unit.env("PROPTEST_CASES", &size))?;
        }
        let mut proof = self.tests.command()?;
        proof.args(["--", self.filter, "--nocapture", "--test-threads", "1"]);
        if let (Some(First { variable, .. }), Some(first)) = (&self.first, first) {
            proof.env(variable, first.to_string());
        }
        if let (Some((_, variable)), true) = (self.switch, switched) {
            proof.env(variable, "1");
        }
        run(proof.env(self.variable, &size))
    }

    fn parse(&self, arguments: &[String]) -> Result<Sizes> {
        let (mut size, mut first) = (None, None);
        let is_switch = |given: &&String| self.switch.is_some_and(|(option, _)| option == *given);
        let switched = arguments.iter().any(|given| is_switch(&given));
        let numbers: Vec<&String> = arguments.iter().filter(|given| !is_switch(given)).collect();
        for option in numbers.chunks(2) {
            match (option, &self.size, &self.first) {
                ([given, number], Size::Option(option, _), _) if *given == option => {
                    size = Some(
                        number
                            .parse()
                            .ok()
                            .filter(|number| *number > 0)
                            .with_context(|| format!("{option} {number}: write a whole number above zero"))?,
                    );
                }
                ([given, number], _, Some(First { option, .. })) if *given == option => {
                    first =
                        Some(number.parse().ok().with_context(|| format!("{option} {number}: write a whole number"))?);
                }
                _ => bail!("usage: cargo xtask {}", self.usage()),
            }
        }
        let (Size::Option(_, default) | Size::Fixed(default)) = self.size;
        let default = match &self.first {
            Some(First { alone, .. }) if first.is_some() => *alone,
            _ => default,
        };
        Ok(Sizes { size: size.unwrap_or(default), first, switched })
    }
}

impl Tests {
    fn command(self) -> Result<Command> {
        match self {
            Self::Integration => {
                run(&mut cargo(&["build", "-p", "windlass"]))?;
                integration(&[])
            }
            Self::Store => {
                postgres::binaries()?;
                Ok(cargo(&["test", "-p", "windlass-store", "--lib"]))
            }
        }
    }
}

/// The parsed options.
#[derive(Debug, PartialEq, Eq)]
struct Sizes {
    size: u64,
    first: Option<u64>,
    switched: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_from_the_option_or_the_table() {
        let size = |size| Sizes { size, first: None, switched: false };
        let from = |size, first| Sizes { size, first: Some(first), switched: false };
        let cases: [(&str, &[&str], Result<Sizes, &str>); 18] = [
            ("props", &[], Ok(size(1000))),
            ("props", &["--cases", "20"], Ok(size(20))),
            ("record-histories", &[], Ok(size(1))),
            ("props", &["--cases"], Err("usage: cargo xtask props [--cases N]")),
            ("props", &["--runs", "20"], Err("usage: cargo xtask props [--cases N]")),
            ("props", &["--cases", "0"], Err("--cases 0: write a whole number above zero")),
            ("chaos", &["--runs", "many"], Err("--runs many: write a whole number above zero")),
            ("record-histories", &["--runs", "1"], Err("usage: cargo xtask record-histories")),
            ("diff", &[], Ok(size(200))),
            ("diff", &["--seed", "0"], Ok(from(1, 0))),
            ("diff", &["--seed", "7", "--seeds", "3"], Ok(from(3, 7))),
            ("diff", &["--control", "--seeds", "3"], Ok(Sizes { switched: true, ..size(3) })),
            ("stores", &["--control"], Err("usage: cargo xtask stores [--seeds N] [--seed N]")),
            ("stores", &["--seeds", "5"], Ok(size(5))),
            ("kill", &["--seed", "7"], Ok(from(200, 7))),
            ("kill", &["--times", "20", "--seed", "7"], Ok(from(20, 7))),
            ("diff", &["--seed", "x"], Err("--seed x: write a whole number")),
            ("diff", &["--seed"], Err("usage: cargo xtask diff [--seeds N] [--seed N] [--control]")),
        ];
        for (command, arguments, expected) in cases {
            let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            let parsed = find(command).unwrap().parse(&arguments).map_err(|error| error.to_string());
            assert_eq!(parsed, expected.map_err(str::to_owned), "{command} {arguments:?}");
        }
    }

    #[test]
    fn proof_commands_are_unique() {
        assert_eq!(find("test").map(Proof::usage), None);
        for proof in ALL {
            assert_eq!(ALL.iter().filter(|other| other.command == proof.command).count(), 1, "{proof:?}");
        }
    }
}
