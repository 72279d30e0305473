//! Programs with schedules on the engine and on the real server: they print the same.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{
    node::{Programs, fixture, tool},
    sdk_workers::queue,
    server::{self, Server},
};

fn printed(output: &Output, name: &str) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout).lines().map(|line| line.replace(name, "")).collect()
}

#[track_caller]
fn assert_same(lines: impl Fn(&Server) -> Vec<String>) {
    let (real, engine) = (lines(server::temporal()), lines(server::embedded()));
    assert!(!real.is_empty());
    for (real, engine) in real.iter().zip(&engine) {
        assert_eq!(engine, real);
    }
    assert_eq!(engine.len(), real.len());
}

#[test]
fn a_program_of_the_python_sdk_sees_the_same_schedules() {
    assert_same(|server| {
        let queue = queue("python-schedules");
        let mut command = Command::new("python3");
        command.arg(fixture("temporal/schedules.py")).args([&server.address, &queue]);
        command.env("PYTHONPATH", tool("WINDLASS_PYTHON_SDK"));
        printed(&command.output().unwrap(), &queue)
    });
}

#[test]
fn a_program_of_the_typescript_sdk_sees_the_same_schedules() {
    let programs = Programs::new("WINDLASS_NODE_TEMPORAL", &["temporal/schedules.mjs"]);
    assert_same(|server| {
        let queue = queue("node-schedules");
        let mut command = programs.command("schedules.mjs");
        printed(&command.args([&server.address, &queue]).output().unwrap(), &queue)
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
        let described = || {
            let shown = temporal(&["describe", "-s", &id, "-o", "json"]);
            let mut shown: Value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}"));
            without_moments(&mut shown);
            shown.to_string()
        };
        let work = format!("{id}-run");
        let action = ["--type", "t", "--task-queue", &id, "--workflow-id", &work];
        let far = ["--start-time", "2030-01-01T00:00:00Z"];
        let spec =
            ["--interval", "5h/1h", "--calendar", r#"{"hour":"3","dayOfMonth":"*/2"}"#, "--cron", "0 12 * * MON-FRI"];
        let more =
            ["--time-zone", "Europe/Berlin", "--overlap-policy", "AllowAll", "--memo", "a=\"b\"", "--input", "\"x\""];
        let create = [&["create", "-s", &id][..], &action, &far, &spec, &more].concat();
        let mut lines = vec![temporal(&create), described(), temporal(&create)];
        lines.push(temporal(&["trigger", "-s", &id]));
        lines.push(described());
        for (switch, reason) in [("--pause", "because"), ("--unpause", "again")] {
            lines.push(temporal(&["toggle", "-s", &id, switch, "--reason", reason]));
            lines.push(described());
        }
        let from = ["--start-time", "2030-01-01T00:00:00Z", "--end-time", "2030-01-02T00:00:00Z"];
        lines.push(temporal(&[&["backfill", "-s", &id][..], &from].concat()));
        let update = [&["update", "-s", &id][..], &action, &far, &["--interval", "90m"]].concat();
        lines.push(temporal(&update));
        lines.push(described());
        lines.push(temporal(&["delete", "-s", &id]));
        lines.push(temporal(&["describe", "-s", &id]));
        lines
    });
}

/// Removes what depends on the moment.
fn without_moments(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in ["createTime", "updateTime", "scheduleTime", "actualTime", "runId", "workflowId"] {
                fields.remove(name);
            }
            fields.values_mut().for_each(without_moments);
        }
        Value::Array(items) => items.iter_mut().for_each(without_moments),
        _ => {}
    }
}
