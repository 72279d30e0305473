//! Processes that can be killed: any that prints lines, and workers with the ledger they leave behind.

use std::{
    io::{self, BufRead, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

/// Where worker processes live: their data, their scripts, their ledger.
pub(crate) struct Workshop {
    pub(crate) dir: TempDir,
    address: String,
    pub(crate) task_queue: String,
    pub(crate) cached_runs: usize,
    /// Variables of the workers' environment, such as keys of providers.
    pub(crate) environment: Vec<(&'static str, String)>,
}

/// A process whose lines are read as they come. Dropping it is `kill -9`.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
}

/// Nothing a test waits for takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(90);

impl Process {
    pub(crate) fn spawn(command: Command) -> Self {
        Self::spawn_with_log(command, Stdio::null())
    }

    /// As [`Self::spawn`]; what the process logs, on stderr, goes there.
    pub(crate) fn spawn_with_log(mut command: Command, log: Stdio) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // Read all the time: a full pipe would stop the process.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                sender.send(line).ok();
            }
        });
        Self { child, lines }
    }

    /// The next line that fits.
    pub(crate) fn line(&self, fits: impl Fn(&str) -> bool) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the line comes");
            if fits(&line) {
                return line;
            }
        }
    }

    /// Blocks until `count` more lines have come that begin with `what`.
    pub(crate) fn wait_for(&self, what: &str, count: usize) {
        for _ in 0..count {
            self.line(|line| line.starts_with(what));
        }
    }

    /// Writes a line to its standard input, which the command must have had piped.
    pub(crate) fn tell(&mut self, line: &str) -> io::Result<()> {
        let input = self.child.stdin.as_mut().expect("its standard input is piped");
        writeln!(input, "{line}")
    }

    /// Asks it to end and waits until it has.
    pub(crate) fn terminate(mut self) {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its own end.
    pub(crate) fn exit_code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What a worker process calls itself to the server.
    pub(crate) fn identity(&self) -> String {
        format!("it-worker-{}", self.child.id())
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = Path::new("/proc").join(self.child.id().to_string()).join("status");
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
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
        Self { dir, address: address.to_owned(), task_queue, cached_runs: 1000, environment: Vec::new() }
    }

    /// Gives the workers a `windlass.toml`.
    pub(crate) fn configure(&self, config: &str) {
        std::fs::write(self.dir.path().join("windlass.toml"), config).unwrap();
    }

    fn ledger_path(&self) -> PathBuf {
        self.dir.path().join("ledger")
    }

    pub(crate) fn spawn(&self) -> Process {
        self.spawn_build(None)
    }

    /// A worker that is another program, built from another commit.
    pub(crate) fn spawn_program(&self, program: &Path) -> Process {
        Process::spawn(self.command(program))
    }

    fn command(&self, program: &Path) -> Command {
        let path = |name: &str| self.dir.path().join(name);
        let mut command = Command::new(program);
        command.args([&self.address, &self.task_queue]).arg(self.dir.path()).arg(path("scripts.json"));
        command.arg(self.ledger_path()).arg(self.cached_runs.to_string());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A worker of a named build, with worker versioning.
    pub(crate) fn spawn_build(&self, build: Option<&str>) -> Process {
        let mut command = self.command(Path::new(env!("CARGO_BIN_EXE_it-worker")));
        if let Some(build) = build {
            command.env("IT_BUILD_ID", build);
        }
        Process::spawn(command)
    }

    pub(crate) fn ledger(&self) -> Vec<Entry> {
        let text = std::fs::read_to_string(self.ledger_path()).unwrap_or_default();
        text.lines().map(parse).collect()
    }
}

fn parse(line: &str) -> Entry {
    let mut words = line.split(' ');
    let mut next = || words.next().unwrap_or_default().to_owned();
    let (what, run, item) = (next(), next(), next());
    Entry { what, run, item, attempt: next().parse().unwrap(), at: next().parse().unwrap() }
}
