//! `cargo xtask`: the project's own commands. Run it without arguments for the list.

mod bench;
mod cargo;
mod deny;
mod fuzz;
mod hostile;
mod load;
mod postgres;
mod proofs;
mod record;
mod schemathesis;
mod steps;
mod test;
mod tidy;
mod tools;

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

fn run(arguments: &[String]) -> Result<()> {
    let Some((command, rest)) = arguments.split_first() else {
        print!("{}", help());
        return Ok(());
    };
    match (command.as_str(), rest) {
        ("help" | "-h" | "--help", _) => {
            print!("{}", help());
            Ok(())
        }
        ("bench", rest) => bench::run(rest),
        ("fuzz", rest) => fuzz::run(rest),
        ("hostile", rest) => hostile::run(rest),
        ("load", rest) => load::run(rest),
        ("schemathesis", rest) => schemathesis::run(rest),
        ("test", []) => test::run(),
        ("record", []) => record::run(),
        ("tidy", []) => tidy::run(),
        ("tools", []) => tools::run(),
        ("deny", []) => deny::run(deny::Advisories::Skip),
        ("deny", [flag]) if flag == "--advisories" => deny::run(deny::Advisories::Check),
        _ => match proofs::find(command) {
            Some(proof) => proof.run(rest),
            None => bail!("there is no command `{}`; run `cargo xtask` for the list", arguments.join(" ")),
        },
    }
}

fn help() -> String {
    let fixed = [
        ("test".to_owned(), "everything a change must pass"),
        (bench::USAGE.to_owned(), "the embedded engine and the dev server, measured side by side"),
        (fuzz::USAGE.to_owned(), "the API's parser under libFuzzer, from recorded requests on"),
        (hostile::USAGE.to_owned(), "attacks on the built program: kills, damage, misuse of keys, malformed requests"),
        (load::USAGE.to_owned(), "thousands of streams on one server while their runs talk"),
        (schemathesis::USAGE.to_owned(), "requests nobody would send, made from the OpenAPI document"),
        ("record".to_owned(), "play the demo at a terminal and draw it for the README"),
        ("tidy".to_owned(), "the rules that no compiler checks"),
        ("tools".to_owned(), "install what the tests run against: the Temporal CLI, Python SDKs, Postgres"),
        ("deny [--advisories]".to_owned(), "licences, sources and bans of dependencies; advisories need the network"),
    ];
    let proofs = proofs::ALL.iter().map(|proof| (proof.usage(), proof.description));
    let mut text = "usage: cargo xtask <command>\n\n".to_owned();
    for (usage, description) in fixed.into_iter().chain(proofs) {
        text.push_str(&format!("  {usage:<26} {description}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_proof() {
        let help = help();
        for proof in proofs::ALL {
            assert!(help.contains(&format!("  {} ", proof.usage())), "{help}");
        }
    }

    #[test]
    fn what_is_not_a_command_is_refused() {
        for arguments in [vec!["tets"], vec!["test", "now"], vec!["deny", "--all"]] {
            let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
            let expected = format!("there is no command `{}`; run `cargo xtask` for the list", arguments.join(" "));
            assert_eq!(run(&arguments).unwrap_err().to_string(), expected);
        }
    }
}
