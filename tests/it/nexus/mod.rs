//! Nexus on the engine and on the real server: requests by hand, programs of the SDKs and the stock CLI must get the
//! same from both; and operations that are in the middle when the engine is killed.

use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    both::{self, on_both},
    node::Programs,
    process::Process,
    server::lasting_port,
};

/// A Python program of this folder.
fn python(program: &str, args: &[&str]) -> Value {
    let mut command = both::python(format!("{}/it/nexus/{program}", env!("CARGO_MANIFEST_DIR")));
    command.args(args);
    printed(command)
}

/// What a program prints, as JSON.
fn printed(mut command: Command) -> Value {
    let output = command.output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{command:?}: {error}: {text}{errors}"))
}

#[test]
fn requests_by_hand_have_the_same_replies_and_histories() {
    let [real, engine] = on_both(|server| python("cases.py", &[&server.address]));
    let (real, engine) = (real.as_object().unwrap(), engine.as_object().unwrap());
    assert!(real.len() > 20);
    for (case, transcript) in real {
        let failed = transcript.as_array().unwrap().iter().find(|entry| entry.get("failed").is_some());
        assert_eq!(failed, None, "{case}");
        assert_eq!(engine.get(case), Some(transcript), "{case}");
    }
}

#[test]
fn a_program_of_the_python_sdk_has_the_same_results_and_events() {
    let [real, engine] = on_both(|server| python("sdk.py", &[&server.address]));
    assert_eq!(real[0]["result"]["work"], "done: now", "{real}");
    assert_eq!(engine, real);
}

#[test]
fn a_program_of_the_typescript_sdk_has_the_same_results_and_events() {
    let programs = Programs::new("WINDLASS_NODE_TEMPORAL", &["nexus/program.mjs", "nexus/desk.mjs"]);
    let [real, engine] = on_both(|server| {
        let mut command = programs.command("program.mjs");
        command.arg(&server.address);
        printed(command)
    });
    assert_eq!(real["result"]["cancelled"], "cancelled", "{real}");
    assert_eq!(engine, real);
}

#[test]
fn the_stock_cli_manages_endpoints() {
    let name = format!("desk-{}", uuid::Uuid::now_v7().simple());
    let [real, engine] = on_both(|server| {
        let temporal = |args: &[&str]| {
            let mut command = Command::new(&server.cli);
            command.args(["operator", "nexus", "endpoint"]).args(args);
            let output = command.args(["--address", &server.address, "--output", "json"]).output().unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let printed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            // The list has the endpoints of other tests, too.
            let all = printed.as_array().cloned().unwrap_or_else(|| vec![printed]);
            let ours = all.into_iter().filter(|it| it["spec"]["name"] == name.as_str()).map(|mut endpoint| {
                for key in ["id", "createdTime", "lastModifiedTime", "urlPrefix"] {
                    if let Some(value) = endpoint.get_mut(key) {
                        *value = "*".into();
                    }
                }
                endpoint
            });
            serde_json::json!([ours.collect::<Vec<_>>(), text(&output.stderr)])
        };
        let named = ["--name", &name];
        let target = ["--target-namespace", "default", "--target-task-queue", "desk"];
        let description = ["--description", "greets"];
        Value::Array(vec![
            temporal(&[&["create"][..], &named, &target, &description].concat()),
            temporal(&[&["create"][..], &named, &target].concat()),
            temporal(&[&["get"][..], &named].concat()),
            temporal(&["list"]),
            temporal(&[&["update"][..], &named, &["--target-task-queue", "other"]].concat()),
            temporal(&[&["get"][..], &named].concat()),
            temporal(&[&["delete"][..], &named].concat()),
            temporal(&[&["get"][..], &named].concat()),
        ])
    });
    assert_eq!(real[2][0][0]["spec"]["target"]["worker"]["taskQueue"], "desk", "{real}");
    assert_eq!(engine, real);
}

#[test]
fn operations_end_once_although_the_engine_is_killed_in_the_middle() {
    let dir = TempDir::new().unwrap();
    let port = lasting_port().to_string();
    let address = format!("127.0.0.1:{port}");
    let engine = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_it-engine"));
        command.arg(dir.path()).arg(&port).stdin(Stdio::piped());
        let engine = Process::spawn(command);
        engine.line(|line| line == "ready");
        engine
    };
    let killed = engine();
    let left = python("kill.py", &[&address, "before"]);
    drop(killed);
    let _next = engine();
    let events = python("kill.py", &[&address, "after", &left.to_string()]);
    let mut kinds: Vec<String> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let (kind, event) = (event[0].as_str().unwrap(), event[1].as_object().unwrap());
            let attributes = event.iter().find(|(key, _)| key.ends_with("Attributes")).unwrap().1;
            let operation = attributes["scheduledEventId"].as_str().or_else(|| event["eventId"].as_str()).unwrap();
            format!("{operation} {}", kind.strip_prefix("EVENT_TYPE_NEXUS_OPERATION_").unwrap())
        })
        .collect();
    kinds.sort_unstable();
    let expected = [
        "5 COMPLETED",
        "5 SCHEDULED",
        "6 COMPLETED",
        "6 SCHEDULED",
        "6 STARTED",
        "7 COMPLETED",
        "7 SCHEDULED",
        "7 STARTED",
        "8 COMPLETED",
        "8 SCHEDULED",
    ];
    assert_eq!(kinds, expected);
}
