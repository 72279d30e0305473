//! The SDKs, and a scenario of the harness with one of them.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;

use super::dev::{KEY, WORKSPACE, here};
use crate::support::process::Process;

/// A version of the SDK that must work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sdk {
    V0_9,
    V0_10,
    V0_25,
    V2026,
}

impl Sdk {
    pub(super) const ALL: [Self; 4] = [Self::V0_9, Self::V0_10, Self::V0_25, Self::V2026];

    pub(super) fn version(self) -> &'static str {
        match self {
            Self::V0_9 => "0.9.1",
            Self::V0_10 => "0.10.1",
            Self::V0_25 => "0.25.0",
            Self::V2026 => "2026.10.2",
        }
    }

    /// Whether it counts tokens, lists sessions and posts results again.
    pub(super) fn is_later(self) -> bool {
        self >= Self::V0_25
    }
}

/// Where `cargo xtask` put the SDKs and their peers.
fn installed(folder: &str) -> PathBuf {
    let tools = std::env::var_os("WINDLASS_AGENT_SDKS");
    PathBuf::from(tools.expect("WINDLASS_AGENT_SDKS names the folder of the SDKs; `cargo xtask test` installs them"))
        .join(folder)
}

const PEERS: &str = "agent-peers-2";

fn python(script: &str, packages: &str) -> Command {
    let mut command = Command::new("python3");
    command.arg(here("harness").join(script)).env("PYTHONPATH", installed(packages));
    command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::piped());
    command
}

/// A real A2A peer; it lives as long as this does.
pub(super) struct Peer {
    /// Where its card is.
    pub(super) card: String,
    _process: Process,
}

impl Peer {
    pub(super) fn start() -> Self {
        let process = Process::spawn(python("a2a_peer.py", PEERS));
        Self { card: process.line(|line| line.starts_with("http://")), _process: process }
    }
}

/// A scenario at work.
pub(super) struct Scenario {
    process: Process,
}

impl Scenario {
    pub(super) fn start(name: &str, sdk: Sdk, url: &str, card: &str) -> Self {
        let mut command = python("main.py", &format!("mantyx-sdk-{}", sdk.version()));
        command.arg(name).envs([("WINDLASS_URL", url), ("WINDLASS_KEY", KEY), ("WINDLASS_WORKSPACE", WORKSPACE)]);
        command.env("WINDLASS_A2A_CARD", card).env("WINDLASS_AGENT_PEERS", installed(PEERS));
        Self { process: Process::spawn(command) }
    }

    /// Blocks until it says that it is there.
    pub(super) fn is_at(&self, place: &str) -> Result<(), String> {
        match self.say() {
            Said::At(said) if said == place => Ok(()),
            other => Err(format!("expected it to be {place}, it said {other:?}")),
        }
    }

    /// What it waits for. One that has ended says so by what it printed.
    pub(super) fn tell(&mut self, word: &str) -> Result<(), String> {
        self.process.tell(word).map_err(|error| error.to_string())
    }

    /// What came of it.
    pub(super) fn facts(&self) -> Result<Value, String> {
        match self.say() {
            Said::Facts(facts) => Ok(facts),
            Said::Broken(why) => Err(why),
            Said::At(place) => Err(format!("it is at {place}, which was not expected")),
        }
    }

    fn say(&self) -> Said {
        let line = self.process.line(|line| line.starts_with('{'));
        let mut line: Value = serde_json::from_str(&line).unwrap();
        match (&line["at"], &line["broken"]) {
            (Value::String(place), _) => Said::At(place.clone()),
            (_, Value::String(why)) => Said::Broken(why.clone()),
            _ => Said::Facts(line["facts"].take()),
        }
    }
}

#[derive(Debug)]
enum Said {
    At(String),
    Broken(String),
    Facts(Value),
}
