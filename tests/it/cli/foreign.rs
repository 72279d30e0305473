//! Two installations on one machine: neither touches the other's runs.

use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use super::{Home, binary};
use crate::support::server::{Backend, free_port};

/// An installation that has a store and, at the moment, no server.
fn other(address_of: &Home) -> Home {
    let home = Home { dir: TempDir::new().unwrap(), port: free_port() };
    let dev = home.dev();
    home.json(&["run", "--agent", "demo", "--run-id", "run-of-b", "--detach", "x"]);
    home.follow("run-of-b", "await_opened", "clarification");
    drop(dev);
    if Backend::chosen() == Backend::Temporal {
        super::stop_server_of(home.dir.path());
    }
    Home { port: address_of.port, ..home }
}

fn said(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a command that should end by itself, for so many seconds.
fn bounded(command: &Command) -> Output {
    let mut bounded = Command::new("timeout");
    bounded.arg("20").arg(command.get_program()).args(command.get_args()).env("USER", "ann");
    bounded.output().unwrap()
}

fn installation(home: &Home) -> String {
    let checks = home.client(&["doctor"]).output().unwrap();
    let checks: Value = serde_json::from_slice(&checks.stdout).unwrap();
    let check = checks.as_array().unwrap().iter().find(|check| check["check"] == "installation").unwrap();
    check["detail"].as_str().unwrap().to_owned()
}

#[test]
fn a_worker_with_another_store_does_not_poll_and_runs_continue() {
    let home = Home { dir: TempDir::new().unwrap(), port: free_port() };
    let _dev = home.dev();
    let strange = TempDir::new().unwrap();
    let mut worker = Command::new(binary());
    worker.args(["worker", "--temporal", &format!("127.0.0.1:{}", home.port), "--data-dir"]).arg(strange.path());
    let refused = bounded(&worker);
    let text = said(&refused);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("OPS0016: task queue windlass of namespace default belongs to installation"), "{text}");
    assert!(text.contains(&installation(&home)), "{text}");
    let serve = {
        let mut command = Command::new(binary());
        command.args(["serve", "--listen", "127.0.0.1:0", "--temporal", &format!("127.0.0.1:{}", home.port)]);
        command.arg("--data-dir").arg(strange.path());
        bounded(&command)
    };
    assert_eq!(serve.status.code(), Some(1), "{}", said(&serve));
    // Its own worker still serves.
    home.json(&["run", "--agent", "echo", "--run-id", "run-a", "--detach", "hello"]);
    assert_eq!(home.follow("run-a", "result", "")["data"]["text"], "You said: hello");
    if Backend::chosen() == Backend::Temporal {
        super::stop_server_of(home.dir.path());
    }
}

#[test]
fn commands_do_not_reach_another_installation() {
    let home = Home { dir: TempDir::new().unwrap(), port: free_port() };
    let _dev = home.dev();
    home.json(&["run", "--agent", "demo", "--run-id", "run-a", "--detach", "Write a launch note"]);
    home.follow("run-a", "await_opened", "clarification");
    let strange = other(&home);
    for args in [
        &["runs", "pause", "run-a"][..],
        &["runs", "cancel", "run-a"],
        &["runs", "steer", "run-a", "Faster."],
        &["run", "--agent", "echo", "--detach", "hello"],
    ] {
        let refused = bounded(&strange.client(args));
        assert_eq!(refused.status.code(), Some(1), "{args:?}: {}", said(&refused));
        assert!(said(&refused).contains("OPS0016"), "{args:?}: {}", said(&refused));
    }
    let doctor = bounded(&strange.client(&["doctor"]));
    assert_eq!(doctor.status.code(), Some(1), "{}", said(&doctor));
    let shown = home.json(&["runs", "show", "run-a"]);
    assert_eq!(shown["run"]["status"], "waiting", "{shown}");
    if Backend::chosen() == Backend::Temporal {
        super::stop_server_of(home.dir.path());
    }
}

#[test]
fn doctor_adopt_pairs_another_store_with_the_namespace() {
    let home = Home { dir: TempDir::new().unwrap(), port: free_port() };
    let dev = home.dev();
    let strange = other(&home);
    // The store of the namespace's first installation is lost; another one takes its place.
    let adopted = bounded(&strange.client(&["doctor", "--adopt"]));
    assert!(!said(&adopted).contains("OPS0016"), "{}", said(&adopted));
    // Its run is not in the namespace that is now its only one.
    let missing = bounded(&strange.client(&["runs", "pause", "run-of-b"]));
    assert!(said(&missing).contains("run-of-b is already failed"), "{}", said(&missing));
    let refused = bounded(&home.client(&["runs", "pause", "run-a"]));
    assert!(said(&refused).contains("OPS0016"), "{}", said(&refused));
    drop(dev);
    if Backend::chosen() == Backend::Temporal {
        super::stop_server_of(home.dir.path());
    }
}
