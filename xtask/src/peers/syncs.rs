//! How often processes ask the system to sync a file. `strace` counts, in a pass of its own that is not timed, because it
//! makes everything slower.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::processes;

const CALLS: &str = "trace=fsync,fdatasync,syncfs,sync_file_range,msync";
/// How long `strace` may take to stop every thread for a moment.
const ATTACHED: Duration = Duration::from_secs(10);

/// Counts the calls of these processes and of everything they started, while `act` is carried out. Without `strace` there
/// is no count.
pub(super) fn during<T>(heads: &[u32], act: impl FnOnce() -> Result<T>) -> Result<(T, Option<u64>)> {
    let summary = summary();
    let mut command = strace(&summary);
    for pid in processes::family_of(heads) {
        command.args(["-p", &pid.to_string()]);
    }
    let Ok(strace) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else { return Ok((act()?, None)) };
    let mut strace = Tracer(strace);
    let begun = Instant::now();
    while !heads.iter().all(|pid| is_traced(*pid)) && begun.elapsed() < ATTACHED {
        thread::sleep(Duration::from_millis(50));
    }
    let done = act();
    strace.stop()?;
    Ok((done?, read(&summary)))
}

/// Makes `strace` count the calls of a command. `None` without `strace`.
pub(super) fn of(command: &Command) -> Option<(Command, PathBuf)> {
    Command::new("strace").arg("-V").stdout(Stdio::null()).status().ok()?;
    let summary = summary();
    let mut traced = strace(&summary);
    traced.arg(command.get_program()).args(command.get_args());
    Some((traced, summary))
}

/// The calls of a summary, which is removed.
pub(super) fn read(summary: &Path) -> Option<u64> {
    let text = fs::read_to_string(summary).ok()?;
    let _ = fs::remove_file(summary);
    Some(calls(&text))
}

/// `-f` follows threads and children, `-c` prints nothing but the sums.
fn strace(summary: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-U", "calls,name", "-e", CALLS, "-o"]).arg(summary);
    command
}

/// A file of its own for each count.
fn summary() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    std::env::temp_dir().join(format!(
        "windlass-bench-syncs-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ))
}

fn is_traced(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() != "0"))
}

/// The sum of the calls of a summary with the columns calls and name.
fn calls(summary: &str) -> u64 {
    let numbers = summary.lines().filter(|line| !line.ends_with("total"));
    numbers.filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

struct Tracer(Child);

impl Tracer {
    /// `strace` writes its summary when it is interrupted, and leaves the processes running.
    fn stop(&mut self) -> Result<()> {
        Command::new("kill").args(["-INT", &self.0.id().to_string()]).status().context("kill could not be started")?;
        self.0.wait()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_added_up_without_the_total() {
        let summary = "    calls syscall\n--------- ----------------\n      220 fdatasync\n        3 fsync\n\
                       --------- ----------------\n      223 total\n";
        assert_eq!((calls(summary), calls("")), (223, 0));
    }
}
