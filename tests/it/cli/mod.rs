//! The `windlass` binary as people use it: one command to start, a run that asks and waits, and `kill -9` in the middle.
//! Operating runs over a server's API is in `server.rs`, a server that comes back elsewhere in `moved.rs`.

mod approvals;
mod config;
mod foreign;
mod mcp;
mod moved;
mod provider;
mod secrets;
mod server;

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    process::Process,
    server::{Backend, free_port, temporal_cli},
};

fn binary() -> PathBuf {
    let path = std::env::var_os("WINDLASS_BIN");
    PathBuf::from(path.expect("WINDLASS_BIN names the built binary; `cargo xtask test` builds it and sets it"))
}

/// A directory, a port, and commands that know both.
struct Home {
    dir: TempDir,
    port: u16,
}

impl Home {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(args).arg("--json").arg("--data-dir").arg(self.dir.path()).env("USER", "ann");
        command
    }

    /// Starts `windlass dev` and waits until it says that it is ready.
    fn dev(&self) -> Process {
        let mut command = self.command(&["dev", "--port", &self.port.to_string(), "--listen", "127.0.0.1:0"]);
        if Backend::chosen() == Backend::Temporal {
            command.args(["--temporal-server", "--ui-port", &free_port().to_string()]);
            command.arg("--temporal-cli").arg(temporal_cli());
        }
        let dev = Process::spawn(command);
        let banner = dev.line(|line| line.contains("\"address\""));
        assert!(banner.contains(&self.port.to_string()), "{banner}");
        dev
    }

    fn client(&self, args: &[&str]) -> Command {
        let mut command = self.command(args);
        command.arg("--temporal").arg(format!("127.0.0.1:{}", self.port)).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end and returns the JSON it prints.
    fn json(&self, args: &[&str]) -> Value {
        let output = self.client(args).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "windlass {args:?}: {}\n{out}{err}", output.status);
        serde_json::from_str(out.trim()).unwrap_or_else(|error| panic!("windlass {args:?}: {error}: {out}"))
    }

    /// Follows a run until an event of this type with this text in it.
    fn follow(&self, run: &str, kind: &str, text: &str) -> Value {
        let events = Process::spawn(self.client(&["runs", "events", run, "--follow"]));
        let line = events.line(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            event["type"] == kind && line.contains(text)
        });
        serde_json::from_str(&line).unwrap()
    }
}

/// Conversations and keys are in it.
#[test]
fn a_data_directory_is_readable_by_its_owner_only() {
    let dir = TempDir::new().unwrap();
    let home = dir.path().join("made");
    let mut command = Command::new(binary());
    command.args(["dev", "--json", "--port", "0", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&home);
    let dev = Process::spawn(command);
    dev.line(|line| line.contains("\"api\""));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let files: Vec<PathBuf> = std::fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().path()).collect();
    let open: Vec<&PathBuf> = files.iter().filter(|file| mode(file) & 0o077 != 0).collect();
    assert_eq!((mode(&home), open), (0o700, Vec::new()));
    assert!(
        ["windlass.db", "windlass.db-wal", "api-key", "dev.json", "secrets-key"]
            .iter()
            .all(|name| files.contains(&home.join(name)))
    );
}

#[test]
fn a_run_continues_after_dev_was_killed() {
    let home = Home { dir: TempDir::new().unwrap(), port: free_port() };
    let dev = home.dev();
    let run = "run-demo";
    home.json(&["run", "--agent", "demo", "--run-id", run, "--detach", "Write a launch note"]);
    let question = home.follow(run, "await_opened", "clarification");
    drop(dev);

    let dev = home.dev();
    let await_id = |event: &Value| event["data"]["item"]["id"].as_str().unwrap().to_owned();
    let reply = home.json(&["runs", "answer", run, &await_id(&question), "For our customers"]);
    assert_eq!(reply["status"], "accepted", "{reply}");
    let approval = home.follow(run, "await_opened", "confirmation");
    let shown = home.json(&["runs", "show", run]);
    assert_eq!(shown["run"]["status"], "waiting", "{shown}");
    let approved = home.json(&["runs", "approve", run, &await_id(&approval), "--yes"]);
    assert_eq!(approved["status"], "accepted", "{approved}");
    let result = home.follow(run, "result", "");
    assert_eq!(result["data"]["subtype"], "success", "{result}");

    let listed = home.json(&["runs", "list", "--status", "completed"]);
    let ids: Vec<&str> = listed["runs"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&run), "{listed}");
    drop(dev);
    if Backend::chosen() == Backend::Temporal {
        stop_server_of(home.dir.path());
    }
}

#[test]
fn an_invalid_definition_is_rejected_with_its_line() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("broken.toml");
    std::fs::write(
        &file,
        "id = \"x\"\nmodel = \"script:echo\"\n\n[[tools]]\nname = \"clock\"\ntimeout = \"10 fortnights\"\n",
    )
    .unwrap();
    let output = Command::new(binary()).args(["run", "--agent"]).arg(&file).arg("hi").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("broken.toml:6:11: tools[0].timeout: \"10 fortnights\" is not a duration"), "{error}");
}

/// `dev` was killed the hard way, so the server it supervised is stopped here.
fn stop_server_of(data_dir: &Path) {
    let pid = std::fs::read_to_string(data_dir.join("temporal.pid")).unwrap();
    let pid = pid.split_whitespace().next().unwrap().to_owned();
    Command::new("kill").args(["-9", &pid]).status().unwrap();
}
