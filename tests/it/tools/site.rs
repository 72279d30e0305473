//! A `windlass dev` with a test's own config, agents and scripts, and the commands that operate its runs.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_core::agent::AgentDefinition;
use windlass_store::Blobs as _;

use crate::{
    sdk::dev::binary,
    support::{
        process::Process,
        project::{choose_backend, end_temporal_server},
        server::{Backend, lasting_port},
        world::open_store,
    },
};

pub(super) struct Site {
    dir: TempDir,
    /// What `windlass dev` prints: where its engine and its API are, and the key.
    pub(super) banner: Value,
    backend: Backend,
    /// Of Temporal's protocol, where workers connect.
    port: u16,
    /// Options of `windlass dev` beside its own files.
    options: &'static [&'static str],
    dev: Option<Process>,
}

/// What a command printed, and how it ended.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    pub(super) out: String,
    pub(super) err: String,
    pub(super) code: Option<i32>,
}

impl Site {
    /// With `config` as its `windlass.toml`, on the embedded engine.
    pub(super) fn new(config: &str, agents: &[Value], scripts: &Value) -> Self {
        Self::with_options(&[], config, agents, scripts)
    }

    pub(super) fn with_options(
        options: &'static [&'static str],
        config: &str,
        agents: &[Value],
        scripts: &Value,
    ) -> Self {
        Self::on(Backend::Embedded, options, config, agents, scripts)
    }

    pub(super) fn on(
        backend: Backend,
        options: &'static [&'static str],
        config: &str,
        agents: &[Value],
        scripts: &Value,
    ) -> Self {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("windlass.toml"), config).unwrap();
        fs::write(path("scripts.json"), scripts.to_string()).unwrap();
        fs::create_dir(path("agents")).unwrap();
        for agent in agents {
            let name = format!("agents/{}.json", agent["id"].as_str().unwrap());
            fs::write(path(&name), agent.to_string()).unwrap();
        }
        let mut site = Self { dir, banner: Value::Null, backend, port: lasting_port(), options, dev: None };
        site.start();
        site
    }

    /// Starts `windlass dev` and waits until it serves.
    pub(super) fn start(&mut self) {
        let mut command = self.command(&["dev", "--listen", "127.0.0.1:0", "--scripts", "scripts.json", "--json"]);
        command.args(["--port", &self.port.to_string()]).args(self.options);
        choose_backend(&mut command, self.backend);
        // A directory without agents is refused.
        if fs::read_dir(self.dir.path().join("agents")).unwrap().next().is_some() {
            command.args(["--agents", "agents"]);
        }
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let dev = Process::spawn_with_log(command, log.into());
        self.banner = serde_json::from_str(&dev.line(|line| line.contains("\"api\""))).unwrap();
        self.dev = Some(dev);
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        self.dev = None;
    }

    /// Where workers connect.
    pub(super) fn temporal_address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The log of all its processes.
    pub(super) fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    pub(super) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(args).current_dir(self.dir.path()).args(["--config", "windlass.toml", "--data-dir", "data"]);
        command.env("USER", "ann").stdin(Stdio::null());
        command
    }

    pub(super) fn said(&self, args: &[&str]) -> Said {
        let output = self.command(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { out: text(&output.stdout), err: text(&output.stderr), code: output.status.code() }
    }

    /// The JSON that a command prints.
    pub(super) fn json(&self, args: &[&str]) -> Value {
        let Said { out, err, code } = self.said(&[args, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("windlass {args:?}: {error} [{code:?}]\n{out}{err}"))
    }

    /// Starts a run and returns its id.
    pub(super) fn run(&self, agent: &str) -> String {
        self.json(&["run", agent, "--detach", "go"])["runId"].as_str().unwrap().to_owned()
    }

    /// Waits for the first event of the run's log that fits.
    pub(super) fn event(&self, run: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.events(run, 1, fits).remove(0)
    }

    /// Waits for this many events of the run's log that fit.
    pub(super) fn events(&self, run: &str, count: usize, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let log = Process::spawn(self.command(&["runs", "events", run, "--follow", "--json"]));
        let event = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        (0..count).map(|_| event(&log.line(|line| fits(&event(line))))).collect()
    }

    /// Waits until the run has opened this many awaits, and returns all that are open.
    pub(super) fn awaits(&self, run: &str, count: usize) -> Vec<Value> {
        self.events(run, count, |event| event["type"] == "await_opened");
        serde_json::from_value(self.json(&["runs", "awaits", run])).unwrap()
    }

    /// Waits for the run's end, which must be a success.
    pub(super) fn completed(&self, run: &str) {
        let end = self.event(run, |event| ["result", "error"].contains(&event["type"].as_str().unwrap()));
        assert_eq!(end["data"]["subtype"], "success", "{end}");
    }

    /// The results of the run's calls, ordered by call, without what differs from run to run.
    pub(super) fn results(&self, run: &str) -> Vec<Value> {
        let mut transcript = self.json(&["runs", "transcript", run, "--full"]);
        let entries = transcript["entries"].as_array_mut().unwrap();
        let mut results: Vec<Value> = entries.iter().filter(|entry| entry["type"] == "result").cloned().collect();
        for result in &mut results {
            let fields = result.as_object_mut().unwrap();
            fields.retain(|field, _| ["callId", "name", "ok", "content"].contains(&field.as_str()));
        }
        let numbers = |id: &str| id.split('-').filter_map(|part| part.parse().ok()).collect::<Vec<u32>>();
        results.sort_by_key(|result| numbers(result["callId"].as_str().unwrap()));
        results
    }

    /// The definition that a run is pinned to, from the store.
    pub(super) async fn definition(&self, run: &str) -> AgentDefinition {
        let shown = self.json(&["runs", "show", run]);
        let digest = serde_json::from_value(shown["run"]["agentDigest"].clone()).unwrap();
        let store = open_store(&self.data());
        store.blob(&digest).await.unwrap().unwrap().decode().unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.kill();
        end_temporal_server(&self.data());
    }
}

/// A result of [`Site::results`].
pub(super) fn succeeded(call: &str, name: &str, content: Value) -> Value {
    json!({"callId": call, "name": name, "ok": true, "content": content})
}

/// Likewise, of a call that failed. `content` is what the model gets.
pub(super) fn failed(call: &str, name: &str, content: Value) -> Value {
    json!({"callId": call, "name": name, "ok": false, "content": content})
}

/// The names of a definition's tools.
pub(super) fn tool_names(definition: &AgentDefinition) -> Vec<&str> {
    definition.tools.iter().map(|tool| tool.name.as_str()).collect()
}
