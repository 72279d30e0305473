//! Samples of the server's process and its files.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::line::percentile;

/// Ticks per second in `/proc/PID/stat`.
const TICKS_PER_SECOND: f64 = 100.0;

/// What was seen at one moment. Times are in seconds, sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) at: f64,
    /// Since the process was started.
    pub(super) age: f64,
    pub(super) resident: u64,
    pub(super) threads: u64,
    pub(super) files: u64,
    pub(super) database: u64,
    pub(super) log: u64,
    /// Of short runs that ended since the last sample, in milliseconds.
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) runs_per_s: f64,
    /// Processors at work.
    pub(super) cpus: f64,
}

pub(super) struct Watcher {
    data_dir: PathBuf,
    pid: u32,
    begun: Instant,
    process_begun: Instant,
    last: (Instant, Option<u64>),
    samples: Vec<Sample>,
    restarts: Vec<f64>,
}

impl Watcher {
    pub(super) fn new(data_dir: &Path, pid: u32) -> Self {
        let now = Instant::now();
        let last = (now, ticks_of(pid));
        let data_dir = data_dir.to_owned();
        Self { data_dir, pid, begun: now, process_begun: now, last, samples: Vec::new(), restarts: Vec::new() }
    }

    pub(super) fn has_restarted(&mut self, pid: u32) {
        let now = Instant::now();
        (self.pid, self.process_begun, self.last) = (pid, now, (now, ticks_of(pid)));
        self.restarts.push((now - self.begun).as_secs_f64());
    }

    /// Takes a sample. `latencies` are those of the short runs that have ended since the last one.
    pub(super) fn look(&mut self, latencies: &[f64]) {
        let (now, ticks) = (Instant::now(), ticks_of(self.pid));
        let passed = (now - self.last.0).max(Duration::from_millis(1)).as_secs_f64();
        let worked = ticks.zip(self.last.1).map_or(0, |(now, before)| now.saturating_sub(before));
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let size = |name: &str| fs::metadata(self.data_dir.join(name)).map_or(0, |file| file.len());
        self.samples.push(Sample {
            at: (now - self.begun).as_secs_f64(),
            age: (now - self.process_begun).as_secs_f64(),
            resident: field(&status, "VmRSS:").unwrap_or_default() * 1024,
            threads: field(&status, "Threads:").unwrap_or_default(),
            files: fs::read_dir(format!("/proc/{}/fd", self.pid)).map_or(0, |files| files.count() as u64),
            database: size("windlass.db"),
            log: size("windlass.db-wal"),
            p50: percentile(latencies, 50.0),
            p99: percentile(latencies, 99.0),
            runs_per_s: latencies.len() as f64 / passed,
            cpus: worked as f64 / TICKS_PER_SECOND / passed,
        });
        self.last = (now, ticks);
    }

    pub(super) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// When processes were killed.
    pub(super) fn restarts(&self) -> &[f64] {
        &self.restarts
    }
}

fn ticks_of(pid: u32) -> Option<u64> {
    ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// User and system time. The command name may hold anything, so the fields count from its end.
fn ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// The number of a field of `/proc/PID/status`.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[test]
fn numbers_are_read_from_proc() {
    assert_eq!(ticks("42 (a) b) S 1 42 42 0 -1 4194304 100 0 0 0 17 5 0 0 20 0 1 0 5 1 1"), Some(22));
    let status = "Name:\twindlass\nVmRSS:\t   51200 kB\nThreads:\t14\n";
    assert_eq!(
        [field(status, "VmRSS:"), field(status, "Threads:"), field(status, "VmSwap:")],
        [Some(51200), Some(14), None]
    );
}
