//! A `windlass dev` that was killed and comes back on another port, and a client that follows a run on it.

use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    sdk::dev::{binary, lasting_port},
    support::process::Process,
};

fn command(dir: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args).arg("--json").arg("--data-dir").arg(dir.path()).env("USER", "ann").stdin(Stdio::null());
    command
}

/// Starts `windlass dev`.
fn dev(dir: &TempDir, port: u16) -> Process {
    let listen = format!("127.0.0.1:{port}");
    let dev = Process::spawn(command(dir, &["dev", "--port", "0", "--listen", &listen]));
    dev.line(|line| line.contains(&format!("\"api\":\"http://{listen}\"")));
    dev
}

#[test]
fn a_follower_finds_a_restarted_server_on_another_port() {
    let dir = TempDir::new().unwrap();
    let (before, after) = (lasting_port(), lasting_port());
    let first = dev(&dir, before);
    let follower = Process::spawn(command(&dir, &["run", "demo", "--run-id", "run-1"]));
    follower.line(|line| line.contains("\"await_opened\""));
    let log = Process::spawn(command(&dir, &["runs", "events", "run-1", "--follow"]));
    log.line(|line| line.contains("\"await_opened\""));
    drop(first);
    follower.line(|line| line.contains("\"server_gone\""));
    // Another server runs on the first one's port.
    let strange = TempDir::new().unwrap();
    let _stranger = dev(&strange, before);
    let _second = dev(&dir, after);

    let run = |args: &[&str]| {
        let output = command(&dir, args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["runs", "answer", "run-1", "await-1", "everyone"]);
    let told = |process: &Process, kind: &str| -> Value {
        let event = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
        let own =
            |line: &str| event(line)["runId"].as_str().is_none_or(|run| run.trim_start_matches("default~") == "run-1");
        event(&process.line(|line| own(line) && event(line)["type"] == kind))
    };
    assert_eq!(told(&follower, "await_closed")["data"]["awaitId"], "await-1");
    told(&follower, "await_opened");
    run(&["runs", "approve", "run-1", "await-2", "--yes"]);
    assert_eq!(told(&follower, "result")["data"]["subtype"], "success");
    assert_eq!(told(&log, "result")["data"]["subtype"], "success");
    assert_eq!((follower.exit_code(), log.exit_code()), (Some(0), Some(0)));
}
