//! `kill -9` of the engine's process at random moments under load.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::{sync::watch, task::JoinSet};

use super::{client::Client, driver::Driver, journal::Journal, verify::Evidence, worker::Worker};
use crate::{
    proofs::{dice::Dice, scale},
    support::{block_on, process::Process, server::free_port},
};

/// Workflows that are under way at a time.
const DRIVERS: u64 = 80;
const POLLERS: u64 = 8;
/// When a kill comes, in milliseconds after the engine was ready.
const EARLIEST: u64 = 5;
const LATEST: u64 = 150;
/// An engine that takes longer to come back has a problem.
const START: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(60);

/// Engine processes on one data directory, one after the other.
struct Engines {
    directory: TempDir,
    port: u16,
    up: watch::Sender<bool>,
    process: Option<Process>,
    starts: Vec<Duration>,
}

impl Engines {
    fn new() -> Self {
        let (up, _) = watch::channel(false);
        Self { directory: TempDir::new().unwrap(), port: free_port(), up, process: None, starts: Vec::new() }
    }

    fn start(&mut self) {
        let begun = Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_it-engine"));
        command.arg(self.directory.path()).arg(self.port.to_string()).stdin(Stdio::piped());
        let process = Process::spawn(command);
        process.line(|line| line == "ready");
        self.starts.push(begun.elapsed());
        self.process = Some(process);
        self.up.send_replace(true);
    }

    fn kill(&mut self) {
        self.up.send_replace(false);
        self.process = None;
    }

    fn client(&self) -> Client {
        Client::new(self.port, self.up.subscribe())
    }

    fn file(&self) -> std::path::PathBuf {
        Path::join(self.directory.path(), "engine.db")
    }
}

#[test]
fn nothing_acknowledged_is_lost_or_doubled_by_kills_of_the_engine() {
    let kills = scale("WINDLASS_KILLS", 12);
    let seed = scale("WINDLASS_KILL_SEED", 1) as u64;
    block_on(async {
        let mut engines = Engines::new();
        engines.start();
        let journal = Arc::new(Journal::default());
        let pollers = Worker::new(engines.client(), Arc::clone(&journal)).poll(POLLERS, seed);
        let (stop, stopped) = watch::channel(false);
        let mut drivers = JoinSet::new();
        let names = Arc::new(AtomicUsize::new(0));
        for n in 0..DRIVERS {
            let driver = Driver { client: engines.client(), journal: Arc::clone(&journal) };
            let (stopped, names) = (stopped.clone(), Arc::clone(&names));
            let mut dice = Dice::seeded(seed.wrapping_add(n << 32));
            drivers.spawn(async move {
                while !*stopped.borrow() {
                    let name = names.fetch_add(1, Ordering::Relaxed);
                    driver.drive(&format!("w{name}"), &mut dice).await;
                }
            });
        }
        let mut dice = Dice::seeded(seed);
        for _ in 0..kills {
            tokio::time::sleep(Duration::from_millis(EARLIEST + dice.roll(LATEST - EARLIEST))).await;
            engines.kill();
            tokio::task::block_in_place(|| engines.start());
        }
        stop.send_replace(true);
        let finished = tokio::time::timeout(PATIENCE, async {
            while let Some(driven) = drivers.join_next().await {
                driven.unwrap();
            }
        });
        let finished = finished.await.is_ok();
        let mut evidence = Evidence::gather(&engines.client(), &journal).await;
        assert!(finished, "not every workflow ends:\n{}", evidence.open_runs());
        drop(pollers);
        engines.kill();
        evidence.look_at_disk(&engines.file());

        let findings = evidence.judge(&journal.facts());
        engines.starts.sort();
        let (median, longest) = (engines.starts[engines.starts.len() / 2], *engines.starts.last().unwrap());
        println!(
            "kill -9 of the engine: {kills} times (seed {seed}), ready again after {median:.0?} (median), {longest:.0?} (longest)\n{}",
            findings.report(&journal.facts())
        );
        findings.demand();
        assert!(median < START, "the engine takes {median:?} to start");
    });
}
