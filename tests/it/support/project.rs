//! `windlass dev` with agents and scripts of a test. It can be killed and started again, and commands reach it.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use super::{
    process::Process,
    server::{Backend, lasting_port, temporal_cli},
};
use crate::sdk::dev::binary;

pub(crate) struct Project {
    dir: TempDir,
    backend: Backend,
    /// Of Temporal's protocol.
    port: u16,
    listen: String,
    process: Option<Process>,
}

impl Project {
    /// Agents by name, as TOML. `dev` is started.
    pub(crate) fn start(backend: Backend, agents: &[(String, String)], scripts: &Value) -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::create_dir(dir.path().join("agents")).unwrap();
        for (name, definition) in agents {
            std::fs::write(dir.path().join("agents").join(format!("{name}.toml")), definition).unwrap();
        }
        std::fs::write(dir.path().join("scripts.json"), scripts.to_string()).unwrap();
        let listen = format!("127.0.0.1:{}", lasting_port());
        let mut project = Self { dir, backend, port: lasting_port(), listen, process: None };
        project.start_again();
        project
    }

    /// A command on the data directory, in which it finds the server.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(args).args(["--json", "--no-config", "--data-dir"]).arg(self.dir.path().join("data"));
        command.env("USER", "ann").stdin(Stdio::null());
        command
    }

    /// On the same data, at the same addresses.
    pub(crate) fn start_again(&mut self) {
        let mut command = self.command(&["dev", "--listen", &self.listen, "--port", &self.port.to_string()]);
        command.arg("--agents").arg(self.dir.path().join("agents"));
        command.arg("--scripts").arg(self.dir.path().join("scripts.json"));
        choose_backend(&mut command, self.backend);
        let process = Process::spawn(command);
        process.line(|line| line.contains("\"api\""));
        self.process = Some(process);
    }

    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Where workers connect.
    pub(crate) fn temporal_address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// The API key that `dev` made.
    pub(crate) fn key(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("data/api-key")).unwrap().trim().to_owned()
    }

    pub(crate) fn set_secret(&self, name: &str, value: &str) {
        let mut command = self.command(&["secrets", "set", name, "--from-env", "IT_SECRET"]);
        assert!(command.env("IT_SECRET", value).output().unwrap().status.success());
    }

    /// Runs a command to its end and returns the JSON that it prints.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.command(args).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "windlass {args:?}: {}\n{out}{err}", output.status);
        serde_json::from_str(out.trim()).unwrap_or_else(|error| panic!("windlass {args:?}: {error}: {out}"))
    }

    /// Starts a run of an agent and does not wait for it.
    pub(crate) fn run(&self, agent: &str, run: &str) {
        self.json(&["run", "--agent", agent, "--run-id", run, "--detach", "go"]);
    }

    /// Follows a run until an event of this type.
    pub(crate) fn follow(&self, run: &str, kind: &str) -> Value {
        let events = Process::spawn(self.command(&["runs", "events", run, "--follow"]));
        let is_kind = |line: &str| serde_json::from_str::<Value>(line).unwrap()["type"] == kind;
        serde_json::from_str::<Value>(&events.line(is_kind)).unwrap()["data"].clone()
    }

    /// The data of a run's events of a type.
    pub(crate) fn events(&self, run: &str, kind: &str) -> Vec<Value> {
        let output = self.command(&["runs", "events", run]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["type"] == kind).map(|event| event["data"].clone()).collect()
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        self.kill();
        end_temporal_server(&self.dir.path().join("data"));
    }
}

/// The options of `windlass dev` for a backend.
pub(crate) fn choose_backend(dev: &mut Command, backend: Backend) {
    if backend == Backend::Temporal {
        dev.args(["--temporal-server", "--ui-port", &lasting_port().to_string()]);
        dev.arg("--temporal-cli").arg(temporal_cli());
    }
}

/// Ends Temporal's own server, which outlives a `dev` that was killed.
pub(crate) fn end_temporal_server(data: &Path) {
    if let Ok(pid) = std::fs::read_to_string(data.join("temporal.pid")) {
        Command::new("kill").args(["-9", pid.split_whitespace().next().unwrap()]).status().unwrap();
    }
}
