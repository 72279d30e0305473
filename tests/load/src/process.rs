//! What the operating system says about a process.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Ticks per second in `/proc/PID/stat`.
const TICKS_PER_SECOND: u64 = 100;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    pub(crate) fn me() -> Self {
        Self(std::process::id())
    }

    /// Bytes in memory.
    pub(crate) fn memory(self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).context("the server is gone")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse::<u64>().ok());
        Ok(kilobytes.context("the server has no VmRSS")? * 1024)
    }

    /// Bytes in memory, once they hardly change any more between two looks.
    pub(crate) async fn steady_memory(self, between: Duration) -> Result<u64> {
        let mut before = self.memory()?;
        loop {
            tokio::time::sleep(between).await;
            let now = self.memory()?;
            if now.abs_diff(before) <= now / 1000 {
                return Ok(now);
            }
            before = now;
        }
    }

    /// The time processors have spent on it.
    pub(crate) fn cpu_time(self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).context("the server is gone")?;
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace().collect::<Vec<_>>());
        let fields = fields.unwrap_or_default();
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
        Ok(Duration::from_millis((ticks(11) + ticks(12)) * (1000 / TICKS_PER_SECOND)))
    }
}

/// Thousands of connections need thousands of file descriptors.
pub(crate) fn raise_file_limit() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).context("the limit of open files stays low")
}
