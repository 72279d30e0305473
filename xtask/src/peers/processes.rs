//! Processes and their descendants, by `/proc`: CPU time, memory, and their end.

use std::{
    collections::BTreeMap,
    fs,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// Ticks per second in `/proc/PID/stat`, the same on every architecture.
const TICK_MS: u64 = 10;
/// How long a server may take to end in an orderly way.
const PATIENCE: Duration = Duration::from_secs(60);
/// Memory is steady when it changed by at most 1 % in three looks.
const LOOK: Duration = Duration::from_millis(250);
const STEADY_LOOKS: u32 = 3;
const MOST_LOOKS: u32 = 40;

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// Of the process and of its children that have ended.
    ticks: u64,
}

impl Stat {
    /// The command name may hold anything, so the fields count from its end.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
        Some(Self { parent: number(1)?.try_into().ok()?, ticks: (11..=14).map(number).sum::<Option<u64>>()? })
    }
}

fn all() -> BTreeMap<u32, Stat> {
    let listed = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

/// The processes and everything they started.
fn family(all: &BTreeMap<u32, Stat>, heads: &[u32]) -> Vec<u32> {
    let mut found: Vec<u32> = heads.iter().copied().filter(|pid| all.contains_key(pid)).collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let children = all.iter().filter(|(pid, stat)| stat.parent == parent && !found.contains(pid));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        found.extend(children);
    }
    found
}

/// The processes that run now, and everything they started.
pub(super) fn family_of(heads: &[u32]) -> Vec<u32> {
    family(&all(), heads)
}

/// The time processors have spent on the processes and everything they started.
pub(super) fn cpu_ms(heads: &[u32]) -> f64 {
    let all = all();
    let ticks: u64 = family(&all, heads).iter().filter_map(|pid| all.get(pid)).map(|stat| stat.ticks).sum();
    (ticks * TICK_MS) as f64
}

/// Bytes in memory. Pages that several of the processes share count once.
fn memory(heads: &[u32]) -> u64 {
    let rollup = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
    family(&all(), heads).iter().filter_map(rollup).filter_map(|text| proportional(&text)).sum()
}

fn proportional(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Bytes in memory once they are steady.
pub(super) fn settled_memory(heads: &[u32]) -> u64 {
    let (mut last, mut steady) = (memory(heads), 0);
    for _ in 0..MOST_LOOKS {
        thread::sleep(LOOK);
        let now = memory(heads);
        steady = if now.abs_diff(last) * 100 <= last { steady + 1 } else { 0 };
        last = now;
        if steady == STEADY_LOOKS {
            break;
        }
    }
    last
}

/// A server. It is killed with everything it started when this is dropped.
#[derive(Debug)]
pub(super) struct Server(Child);

impl Server {
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let shown = command.get_program().to_string_lossy().into_owned();
        let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self(started.with_context(|| format!("{shown} could not be started"))?))
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn stop(mut self, signal: &str) -> Result<()> {
        let asked = Command::new("kill").args([signal, &self.pid().to_string()]).status()?;
        let deadline = Instant::now() + PATIENCE;
        while asked.success() && Instant::now() < deadline {
            if self.has_ended() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
        bail!("process {} did not end when it was asked to", self.pid())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        kill_family(self.pid());
        let _ = self.0.wait();
    }
}

/// `kill -9` of a process and of everything it started, all at once.
pub(super) fn kill_family(head: u32) {
    let pids: Vec<String> = family(&all(), &[head]).iter().map(u32::to_string).collect();
    // A process that has ended meanwhile is no error.
    let _ = Command::new("kill").arg("-KILL").args(pids).stderr(Stdio::null()).status();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_does_not_confuse_the_fields() {
        let line = "42 (a) b (c) S 7 42 42 0 -1 4194304 100 0 0 0 17 5 2 1 20 0 1 0 5 1 1";
        assert_eq!(Stat::parse(line), Some(Stat { parent: 7, ticks: 25 }));
        assert_eq!(Stat::parse("42 (a) S 1"), None);
    }

    #[test]
    fn a_family_is_everything_below_its_heads() {
        let of = |parent| Stat { parent, ticks: 1 };
        let all: BTreeMap<u32, Stat> = [(1, of(0)), (2, of(1)), (3, of(2)), (4, of(1)), (5, of(4))].into();
        assert_eq!(family(&all, &[2]), [2, 3]);
        assert_eq!(family(&all, &[4, 2, 99]), [4, 2, 5, 3]);
    }

    #[test]
    fn shared_pages_count_once() {
        let rollup = "5581-7ffd ---p 00000000 00:00 0 [rollup]\nRss:  9000 kB\nPss:  1200 kB\nPss_Dirty: 7 kB\n";
        assert_eq!(proportional(rollup), Some(1200 * 1024));
        assert_eq!(proportional(""), None);
    }
}
