//! Worker processes that can be killed, and the ledger they leave behind.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
};

use serde_json::Value;
use tempfile::TempDir;

/// Where worker processes live: their data, their scripts, their ledger.
pub(crate) struct Workshop {
    pub(crate) dir: TempDir,
    address: String,
    pub(crate) task_queue: String,
    pub(crate) cached_runs: usize,
}

/// A running worker process. Dropping it kills it.
pub(crate) struct WorkerProcess {
    child: Child,
    lines: Receiver<String>,
}

/// A line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) what: String,
    pub(crate) run: String,
    pub(crate) item: String,
    pub(crate) attempt: u32,
    pub(crate) at: u64,
}

impl Workshop {
    pub(crate) fn new(address: &str, scripts: &Value) -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("scripts.json"), scripts.to_string()).unwrap();
        let task_queue = format!("it-{}", uuid::Uuid::now_v7().simple());
        Self { dir, address: address.to_owned(), task_queue, cached_runs: 1000 }
    }

    fn ledger_path(&self) -> PathBuf {
        self.dir.path().join("ledger")
    }

    pub(crate) fn spawn(&self) -> WorkerProcess {
        self.spawn_build(None)
    }

    /// A worker of a named build, with worker versioning.
    pub(crate) fn spawn_build(&self, build: Option<&str>) -> WorkerProcess {
        let path = |name: &str| self.dir.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_it-worker"));
        command.args([&self.address, &self.task_queue]).arg(self.dir.path()).arg(path("scripts.json"));
        command.arg(self.ledger_path()).arg(self.cached_runs.to_string());
        if let Some(build) = build {
            command.env("IT_BUILD_ID", build);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // Read all the time: a full pipe would stop the worker.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                sender.send(line).ok();
            }
        });
        WorkerProcess { child, lines }
    }

    pub(crate) fn ledger(&self) -> Vec<Entry> {
        let text = std::fs::read_to_string(self.ledger_path()).unwrap_or_default();
        text.lines().map(parse).collect()
    }
}

impl WorkerProcess {
    /// Blocks until the worker has written `count` more lines that begin with `what`.
    pub(crate) fn wait_for(&mut self, what: &str, count: usize) {
        let mut seen = 0;
        while seen < count {
            let line = self.lines.recv().expect("the worker goes on");
            seen += usize::from(line.starts_with(what));
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        resident_bytes(self.child.id())
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn parse(line: &str) -> Entry {
    let mut words = line.split(' ');
    let mut next = || words.next().unwrap_or_default().to_owned();
    let (what, run, item) = (next(), next(), next());
    Entry { what, run, item, attempt: next().parse().unwrap(), at: next().parse().unwrap() }
}
