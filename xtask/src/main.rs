//! `cargo xtask`: the project's own commands. Run it without arguments for the list.

mod bench;
mod cargo;
mod conformance;
mod deny;
mod fuzz;
mod hostile;
mod load;
mod peers;
mod postgres;
mod previous;
mod proofs;
mod record;
mod schemathesis;
mod soak;
mod steps;
mod test;
mod tidy;
mod tools;
mod ui;

use std::process::ExitCode;

use anyhow::{Result, bail};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A command with its own module. The longer tests are in `proofs`.
struct Command {
    usage: &'static str,
    description: &'static str,
    run: Run,
}

enum Run {
    Plain(fn() -> Result<()>),
    WithOptions(fn(&[String]) -> Result<()>),
}

const COMMANDS: &[Command] = &[
    Command { usage: "test", description: "everything a change must pass", run: Run::Plain(test::run) },
    Command {
        usage: bench::USAGE,
        description: "the embedded engine and the dev server, measured side by side; --peers: and other systems",
        run: Run::WithOptions(bench::run),
    },
    Command {
        usage: "conformance",
        description: "the official conformance tests of MCP, of the server and the client",
        run: Run::Plain(conformance::run),
    },
    Command {
        usage: fuzz::USAGE,
        description: "the API's parser under libFuzzer, starting from recorded requests",
        run: Run::WithOptions(fuzz::run),
    },
    Command {
        usage: hostile::USAGE,
        description: "attacks on the built program: kills, damage, misuse of keys, malformed requests",
        run: Run::WithOptions(hostile::run),
    },
    Command {
        usage: load::USAGE,
        description: "thousands of streams on one server while their runs write events",
        run: Run::WithOptions(load::run),
    },
    Command {
        usage: soak::USAGE,
        description: "hours of mixed load with kills: nothing is lost, doubled or grows",
        run: Run::WithOptions(soak::run),
    },
    Command {
        usage: schemathesis::USAGE,
        description: "generated requests from the OpenAPI document",
        run: Run::WithOptions(schemathesis::run),
    },
    Command {
        usage: "record",
        description: "play the demo at a terminal and draw it for the README",
        run: Run::Plain(record::run),
    },
    Command {
        usage: "ui",
        description: "Temporal's web UI on the engine, page by page; needs root, nftables and Chromium",
        run: Run::Plain(ui::run),
    },
    Command { usage: "tidy", description: "the rules that no compiler checks", run: Run::Plain(tidy::run) },
    Command {
        usage: "tools",
        description: "install what the tests run against: the Temporal CLI, Python SDKs, aimock, Postgres",
        run: Run::Plain(tools::run),
    },
    Command {
        usage: deny::USAGE,
        description: "licences, sources and bans of dependencies; advisories need the network",
        run: Run::WithOptions(deny::run),
    },
];

impl Command {
    fn name(&self) -> &'static str {
        self.usage.split(' ').next().unwrap_or_default()
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let (name, rest) = match arguments.split_first() {
        None => ("help", arguments),
        Some((name, rest)) => (name.as_str(), rest),
    };
    if let "help" | "-h" | "--help" = name {
        print!("{}", help());
        return Ok(());
    }
    match COMMANDS.iter().find(|command| command.name() == name).map(|command| &command.run) {
        Some(Run::Plain(run)) if rest.is_empty() => run(),
        Some(Run::WithOptions(run)) => run(rest),
        None if let Some(proof) = proofs::find(name) => proof.run(rest),
        Some(Run::Plain(_)) | None => {
            bail!("there is no command `{}`; run `cargo xtask` for the list", arguments.join(" "))
        }
    }
}

fn help() -> String {
    let commands = COMMANDS.iter().map(|command| (command.usage.to_owned(), command.description));
    let proofs = proofs::ALL.iter().map(|proof| (proof.usage(), proof.description));
    let mut text = "usage: cargo xtask <command>\n\n".to_owned();
    for (usage, description) in commands.chain(proofs) {
        text.push_str(&format!("  {usage:<26} {description}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command names of the help text.
    fn listed() -> Vec<String> {
        let help = help();
        help.lines().skip(2).filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    }

    #[test]
    fn command_names_are_unique() {
        let names = listed();
        let repeated: Vec<_> =
            names.iter().filter(|name| names.iter().filter(|other| other == name).count() > 1).collect();
        assert_eq!(repeated, Vec::<&String>::new());
        assert_eq!(names.len(), COMMANDS.len() + proofs::ALL.len());
    }

    #[test]
    fn every_command_that_the_documentation_names_is_listed() {
        let files = tidy::files::all(cargo::root()).unwrap();
        let pages = files.iter().filter(|file| file.path.ends_with(".md"));
        let mut named = 0;
        for (page, line, text) in pages.flat_map(|page| page.lines().map(|(line, text)| (&page.path, line, text))) {
            for rest in text.split("cargo xtask ").skip(1) {
                let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or_default();
                named += usize::from(!name.is_empty());
                assert!(name.is_empty() || listed().contains(&name.to_owned()), "{page}:{line}: cargo xtask {name}");
            }
        }
        assert!(named > 10, "only {named} commands were found in the pages");
    }

    #[test]
    fn unknown_commands_are_rejected() {
        for arguments in [vec!["tets"], vec!["test", "now"], vec!["tidy", "--all"]] {
            let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
            let expected = format!("there is no command `{}`; run `cargo xtask` for the list", arguments.join(" "));
            assert_eq!(run(&arguments).unwrap_err().to_string(), expected);
        }
    }
}
