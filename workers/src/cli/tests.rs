use clap::{CommandFactory as _, Parser as _};
use temporalio_common::worker::VersioningBehavior;

use super::*;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

fn parse(line: &str) -> Result<Cli, String> {
    let words = line.split_whitespace();
    Cli::try_parse_from([&"windlass"].into_iter().copied().chain(words)).map_err(|error| error.to_string())
}

#[test]
fn global_options_can_be_anywhere() {
    for line in
        ["--temporal h:1 --json runs list", "runs --temporal h:1 list --json", "runs list --json --temporal h:1"]
    {
        let cli = parse(line).unwrap();
        assert_eq!((cli.global.address(), cli.global.json), ("h:1", true), "{line}");
    }
}

#[test]
fn invalid_arguments_are_rejected() {
    let cases = [
        ("run", "<AGENT>"),
        ("run demo hello --agent demo", "cannot be used with"),
        ("run --agent a --run-id x,y hello", "run id \"x,y\" is not valid"),
        ("run --agent a --detach --until-waiting hello", "cannot be used with"),
        ("run --agent a --label team hello", "write a label as NAME=VALUE"),
        ("runs list --status busy", "possible values: queued, running, waiting"),
        ("runs list --limit 0", "0 is not in 1.."),
        ("runs answer run-1 await-1", "required arguments were not provided:\n  <TEXT>"),
        ("runs answer run-1 await-1 yes --result c=1", "cannot be used with"),
        ("runs approve run-1 await-1 --digest 12", "a digest is 64 hex digits"),
        ("store sweep", "--older-than <AGE>"),
        ("store sweep --older-than month", "write an age such as 30d, 4w or 12h"),
        ("worker --deployment d", "--build-id <ID>"),
        ("worker --grace soon", "write a duration such as 10s, 5m or 1h"),
    ];
    for (line, expected) in cases {
        let error = parse(line).unwrap_err();
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn an_api_key_is_never_an_argument() {
    assert!(parse("doctor --temporal-api-key secret").is_err());
}

#[test]
fn the_help_of_a_deployment_names_the_behaviour_that_workers_register() {
    let help = Cli::command().find_subcommand_mut("worker").unwrap().render_long_help().to_string();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains("runs are auto-upgrade: a run moves to the current build at its next workflow task"),
        "{help}"
    );
    let deployment = crate::service::Deployment { name: "d".to_owned(), build_id: "b".to_owned() };
    let registered = deployment.versioning().default_versioning_behavior;
    assert_eq!(registered, Some(VersioningBehavior::AutoUpgrade));
}

#[test]
fn hints_repeat_options_that_differ_from_the_default() {
    let cli = parse("--temporal h:1 --data-dir elsewhere runs list").unwrap();
    let hint = cli.global.hint().command("runs list");
    assert!(hint.ends_with(" --temporal h:1 --data-dir elsewhere runs list"), "{hint}");
}

#[test]
fn only_long_running_commands_log_at_info() {
    for (line, serves) in [("dev", true), ("worker", true), ("runs list", false), ("doctor", false)] {
        assert_eq!(parse(line).unwrap().command.serves(), serves, "{line}");
    }
}
