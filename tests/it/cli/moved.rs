//! A `windlass dev` that was killed and comes back on another port, and whoever followed a run on it.

use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::{sdk::dev::binary, support::process::Process};

fn command(dir: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args).arg("--json").arg("--data-dir").arg(dir.path()).env("USER", "ann").stdin(Stdio::null());
    command
}

/// Starts `windlass dev` on whatever port is free; returns it and its address.
fn dev(dir: &TempDir) -> (Process, String) {
    let dev = Process::spawn(command(dir, &["dev", "--port", "0", "--listen", "127.0.0.1:0"]));
    let banner: Value = serde_json::from_str(&dev.line(|line| line.contains("\"api\""))).unwrap();
    (dev, banner["api"].as_str().unwrap().to_owned())
}

#[test]
fn whoever_follows_a_run_finds_its_server_on_another_port() {
    let dir = TempDir::new().unwrap();
    let (first, before) = dev(&dir);
    let follower = Process::spawn(command(&dir, &["run", "demo", "--run-id", "run-1"]));
    let log = Process::spawn({
        follower.line(|line| line.contains("\"await_opened\""));
        command(&dir, &["runs", "events", "run-1", "--follow"])
    });
    log.line(|line| line.contains("\"await_opened\""));
    // Taken by somebody else while nobody listens, so that the next server has to go elsewhere.
    drop(first);
    let _taken = std::net::TcpListener::bind(before.strip_prefix("http://").unwrap()).unwrap();
    follower.line(|line| line.contains("\"server_gone\""));
    let (_second, after) = dev(&dir);
    assert_ne!(before, after);

    let run = |args: &[&str]| {
        let output = command(&dir, args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["runs", "answer", "run-1", "await-1", "everybody"]);
    let told = |process: &Process, kind: &str| -> Value {
        let event = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
        let own = |line: &str| event(line)["runId"].as_str().is_none_or(|run| run == "run-1");
        event(&process.line(|line| own(line) && event(line)["type"] == kind))
    };
    assert_eq!(told(&follower, "await_closed")["data"]["awaitId"], "await-1");
    told(&follower, "await_opened");
    run(&["runs", "approve", "run-1", "await-2", "--yes"]);
    assert_eq!(told(&follower, "result")["data"]["subtype"], "success");
    assert_eq!(told(&log, "result")["data"]["subtype"], "success");
    assert_eq!((follower.exit_code(), log.exit_code()), (Some(0), Some(0)));
}
