//! `windlass store` beside a running `windlass dev`: what has ended goes, what has not stays and goes on.

use std::process::Command;

use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{process::Process, server::free_port};

struct Home {
    dir: TempDir,
    port: u16,
}

/// What a sweep says.
#[derive(Debug, Default, PartialEq, Deserialize)]
struct Swept {
    runs: u64,
    events: u64,
    sessions: u64,
    blobs: u64,
    more: bool,
}

impl Home {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::var_os("WINDLASS_BIN").expect("WINDLASS_BIN is set"));
        command.args(arguments).arg("--json").arg("--data-dir").arg(self.dir.path());
        command
    }

    fn dev(&self) -> Process {
        let port = self.port.to_string();
        let dev = Process::spawn(self.command(&["dev", "--listen", "127.0.0.1:0", "--port", &port]));
        dev.line(|line| line.contains("\"address\""));
        dev
    }

    /// The last line that a command prints.
    fn said(&self, arguments: &[&str]) -> Value {
        let mut command = self.command(arguments);
        if !arguments.contains(&"store") {
            command.arg("--temporal").arg(format!("127.0.0.1:{}", self.port));
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let last = text.lines().last().unwrap_or_else(|| {
            panic!("windlass {arguments:?} said nothing: {}", String::from_utf8_lossy(&output.stderr))
        });
        serde_json::from_str(last).unwrap()
    }

    /// Sweeps whatever has ended and says what that was.
    fn sweep(&self, options: &[&str]) -> Swept {
        serde_json::from_value(self.said(&[&["store", "sweep"], options].concat())).unwrap()
    }

    fn run_ids(&self) -> Vec<String> {
        let listed = self.said(&["runs", "list"]);
        listed["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_sweep_beside_a_running_server_deletes_what_has_ended_and_nothing_else() {
    let home = Home { dir: TempDir::new().unwrap(), port: free_port() };
    let _dev = home.dev();
    home.said(&["run", "--agent", "echo", "--run-id", "run-ended", "Hello"]);
    home.said(&["run", "--agent", "demo", "--run-id", "run-waiting", "--until-waiting", "Write a launch note"]);
    assert_eq!(home.run_ids(), ["run-waiting", "run-ended"]);

    let foreseen = home.sweep(&["--older-than", "0s", "--dry-run"]);
    assert!(foreseen.runs == 1 && foreseen.events > 1 && foreseen.blobs > 1, "{foreseen:?}");
    assert_eq!(home.sweep(&["--older-than", "1d"]), Swept::default(), "it is too young");
    assert_eq!(home.run_ids(), ["run-waiting", "run-ended"]);

    assert_eq!(home.sweep(&["--older-than", "0s"]), foreseen);
    assert_eq!(home.run_ids(), ["run-waiting"]);
    assert_eq!(home.sweep(&["--older-than", "0s"]), Swept::default());
    assert!(home.said(&["store", "compact"])["bytes"].is_u64());

    let awaits = home.said(&["runs", "awaits", "run-waiting"]);
    assert!(awaits.to_string().contains("await-1"), "{awaits}");
    assert_eq!(home.said(&["runs", "cancel", "run-waiting"])["state"], "cancelled");
}
