//! A2A peers on the official SDKs, each in a process of its own.

use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::{
    node::{Programs, fixture, tool},
    process::Process,
    server::lasting_port,
};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Language {
    Python,
    JavaScript,
}

/// `peer.py` or `peer.mjs`. Its tasks outlive it.
pub(crate) struct Peer {
    language: Language,
    options: &'static [&'static str],
    port: u16,
    store: TempDir,
    programs: Programs,
    process: Option<Process>,
}

impl Peer {
    pub(crate) fn start(language: Language, options: &'static [&'static str]) -> Self {
        let (port, store) = (lasting_port(), TempDir::new().unwrap());
        let programs = Programs::new("WINDLASS_NODE_A2A", &["a2a/peer.mjs"]);
        let mut peer = Self { language, options, port, store, programs, process: None };
        peer.start_again();
        peer
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// On the same tasks, at the same address.
    pub(crate) fn start_again(&mut self) {
        let mut command = match self.language {
            Language::Python => python("a2a/peer.py"),
            Language::JavaScript => self.programs.command("peer.mjs"),
        };
        command.args(self.options).args(["--port", &self.port.to_string(), "--store"]).arg(self.store.path());
        let process = Process::spawn(command);
        process.wait_for("listening on ", 1);
        self.process = Some(process);
    }

    /// The states of its tasks.
    pub(crate) fn tasks(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.store.path()).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|file| file.extension().is_some_and(|extension| extension == "json"));
        let tasks = files.map(|file| serde_json::from_slice::<Value>(&std::fs::read(file).unwrap()).unwrap());
        tasks.map(|task| task["status"]["state"].as_str().unwrap().to_owned()).collect()
    }
}

/// A program of `tests/fixtures` with the Python SDK.
pub(crate) fn python(name: &str) -> Command {
    let mut command = Command::new("python3");
    command.arg(fixture(name)).env("PYTHONPATH", tool("WINDLASS_AGENT_SDKS").join("agent-peers-2"));
    command
}
