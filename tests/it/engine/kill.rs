//! `kill -9` of the engine's process at random times under load.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::sync::watch;

use super::{client::Client, host, load::Load};
use crate::{
    proofs::{dice::Dice, scale},
    support::{block_on, process::Process, server::free_port},
};

/// Concurrent workflows.
const DRIVERS: u64 = 80;
const POLLERS: u64 = 8;
/// When a kill comes, in milliseconds after the engine was ready.
const EARLIEST: u64 = 5;
const LATEST: u64 = 150;
/// The longest acceptable start of the engine, on a busy machine.
const START: Duration = Duration::from_millis(500);

/// Engine processes on one data directory, one after the other.
pub(super) struct Engines {
    directory: TempDir,
    pub(super) port: u16,
    pub(super) up: watch::Sender<bool>,
    process: Option<Process>,
    starts: Vec<Duration>,
}

impl Engines {
    pub(super) fn new() -> Self {
        let (up, _) = watch::channel(false);
        Self { directory: TempDir::new().unwrap(), port: free_port(), up, process: None, starts: Vec::new() }
    }

    pub(super) fn start(&mut self) {
        let begun = Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_it-engine"));
        command.arg(self.directory.path()).arg(self.port.to_string()).stdin(Stdio::piped());
        let process = Process::spawn(command);
        process.line(|line| line == "ready");
        self.starts.push(begun.elapsed());
        self.process = Some(process);
        self.up.send_replace(true);
    }

    pub(super) fn kill(&mut self) {
        self.up.send_replace(false);
        self.process = None;
    }

    pub(super) fn client(&self) -> Client {
        Client::new(self.port, self.up.subscribe())
    }

    /// How long starts took: half of them at most, and all of them at most.
    fn start_times(&mut self) -> (Duration, Duration) {
        self.starts.sort();
        (self.starts[self.starts.len() / 2], self.starts[self.starts.len() - 1])
    }
}

#[test]
fn kills_of_the_engine_lose_or_duplicate_nothing_acknowledged() {
    let kills = scale("WINDLASS_KILLS", 12);
    let seed = scale("WINDLASS_KILL_SEED", 1) as u64;
    block_on(async {
        let mut engines = Engines::new();
        engines.start();
        let load = Load::begin(Client::new(engines.port, engines.up.subscribe()), DRIVERS, POLLERS, seed);
        let mut dice = Dice::seeded(seed);
        for _ in 0..kills {
            tokio::time::sleep(Duration::from_millis(EARLIEST + dice.roll(LATEST - EARLIEST))).await;
            engines.kill();
            tokio::task::block_in_place(|| engines.start());
        }
        let (journal, mut evidence) = load.finish().await;
        engines.kill();
        evidence.look_at_disk(&host::file(engines.directory.path()));

        let facts = journal.facts();
        let findings = evidence.judge(&facts);
        let (median, longest) = engines.start_times();
        println!(
            "kill -9 of the engine {kills} times (seed {seed}); ready again after {median:.0?} (median), {longest:.0?} \
             (longest)\n{}",
            findings.report(&facts)
        );
        findings.demand();
        assert!(median < START, "the engine takes {median:?} to start");
    });
}
