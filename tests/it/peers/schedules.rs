//! Programs with schedules on the engine and on the real server: they print the same.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::{
    both::{assert_same, printed, python, without},
    node::{Programs, fixture},
    sdk_workers::queue,
};

/// How long something may take that happens at all.
const PATIENCE: Duration = Duration::from_secs(90);

/// What depends on the moment.
const MOMENTS: [&str; 6] = ["createTime", "updateTime", "scheduleTime", "actualTime", "runId", "workflowId"];

#[test]
fn a_program_of_the_python_sdk_sees_the_same_schedules() {
    assert_same(|server| {
        let queue = queue("python-schedules");
        let mut command = python(fixture("temporal/schedules.py"));
        command.args([&server.address, &queue]);
        printed(command, &queue)
    });
}

#[test]
fn a_program_of_the_typescript_sdk_sees_the_same_schedules() {
    let programs = Programs::new("WINDLASS_NODE_TEMPORAL", &["temporal/schedules.mjs"]);
    assert_same(|server| {
        let queue = queue("node-schedules");
        let mut command = programs.command("schedules.mjs");
        command.args([&server.address, &queue]);
        printed(command, &queue)
    });
}

#[test]
fn the_stock_cli_sees_the_same_schedules() {
    assert_same(|server| {
        let id = queue("cli-schedule");
        let temporal = |args: &[&str]| {
            let mut command = Command::new(&server.cli);
            let output = command.arg("schedule").args(args).args(["--address", &server.address]).output().unwrap();
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).replace(&id, "")
        };
        // The real server shows a change only after a moment.
        let described = |change: &str| {
            let deadline = Instant::now() + PATIENCE;
            loop {
                let shown = temporal(&["describe", "-s", &id, "-o", "json"]);
                let mut shown: Value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}"));
                without(&mut shown, &MOMENTS);
                let shown = shown.to_string();
                if shown.contains(change) {
                    return shown;
                }
                assert!(Instant::now() < deadline, "{change} did not come: {shown}");
            }
        };
        let work = format!("{id}-run");
        let action = ["--type", "t", "--task-queue", &id, "--workflow-id", &work];
        let far = ["--start-time", "2030-01-01T00:00:00Z"];
        let spec =
            ["--interval", "5h/1h", "--calendar", r#"{"hour":"3","dayOfMonth":"*/2"}"#, "--cron", "0 12 * * MON-FRI"];
        let more =
            ["--time-zone", "Europe/Berlin", "--overlap-policy", "AllowAll", "--memo", "a=\"b\"", "--input", "\"x\""];
        let create = [&["create", "-s", &id][..], &action, &far, &spec, &more].concat();
        let mut lines = vec![temporal(&create), described(""), temporal(&create)];
        lines.push(temporal(&["trigger", "-s", &id]));
        lines.push(described(r#""actionCount":"1""#));
        for (switch, reason) in [("--pause", "because"), ("--unpause", "again")] {
            lines.push(temporal(&["toggle", "-s", &id, switch, "--reason", reason]));
            lines.push(described(reason));
        }
        let from = ["--start-time", "2030-01-01T00:00:00Z", "--end-time", "2030-01-02T00:00:00Z"];
        lines.push(temporal(&[&["backfill", "-s", &id][..], &from].concat()));
        // The run that was triggered is open, so the backfilled ones are skipped.
        lines.push(described(r#""overlapSkipped":"6""#));
        let update = [&["update", "-s", &id][..], &action, &far, &["--interval", "90m"]].concat();
        lines.push(temporal(&update));
        lines.push(described("5400s"));
        lines.push(temporal(&["delete", "-s", &id]));
        lines.push(temporal(&["describe", "-s", &id]));
        lines
    });
}
