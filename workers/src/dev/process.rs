//! A server process that may outlive the `dev` process that started it.
//!
//! A killed `dev` cannot stop its server. The server's process id is in a file beside its database. The next `dev` stops
//! that process if it is still the server of this database.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use windlass_sqlite::private;

/// How long to wait after SIGTERM before SIGKILL.
const TERM_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

/// The file with the server's process id.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn write(&self, pid: u32) {
        // Without the file, the server of a killed `dev` keeps running; everything else works.
        let opened = private::open_options().create(true).write(true).truncate(true).open(&self.path);
        if let Err(error) = opened.and_then(|mut file| file.write_all(pid.to_string().as_bytes())) {
            tracing::warn!("{} cannot be written: {error}", self.path.display());
        }
    }

    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Stops the server that an earlier `dev` left behind on this database.
    pub(super) async fn stop_left_behind(&self, database: &Path) {
        let pid = fs::read_to_string(&self.path).ok().and_then(|text| pid(text.trim()));
        if let Some(pid) = pid.filter(|pid| serves(*pid, database)) {
            tracing::info!(pid = pid.as_raw_nonzero().get(), "stopping the Temporal server of a killed `windlass dev`");
            stop(pid).await;
        }
        self.remove();
    }
}

pub(super) fn pid(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}

/// Stops a process: SIGTERM, then SIGKILL.
pub(super) async fn stop(pid: Pid) {
    let _ = kill_process(pid, Signal::TERM);
    let gone = async {
        while test_kill_process(pid).is_ok() {
            tokio::time::sleep(LOOK).await;
        }
    };
    if tokio::time::timeout(TERM_TIMEOUT, gone).await.is_err() {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Whether the process has this file in its command line. Process ids are reused, so another program must not be stopped.
fn serves(pid: Pid, database: &Path) -> bool {
    command_line(pid).is_some_and(|line| line.contains(&*database.to_string_lossy()))
}

fn command_line(pid: Pid) -> Option<String> {
    let id = pid.as_raw_nonzero();
    if let Ok(line) = fs::read(format!("/proc/{id}/cmdline")) {
        return Some(String::from_utf8_lossy(&line).replace('\0', " "));
    }
    let listed = Command::new("ps").args(["-o", "args=", "-p"]).arg(id.to_string()).output().ok()?;
    listed.status.success().then(|| String::from_utf8_lossy(&listed.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Stdio};

    use super::*;

    /// A process with a file in its command line.
    fn process_on(file: &Path) -> Child {
        let mut tail = Command::new("tail");
        let child = tail.args(["-f"]).arg(file).stdout(Stdio::null()).spawn().unwrap();
        // A new process has no command line for a moment.
        while !serves(pid(&child.id().to_string()).unwrap(), file) {
            std::thread::yield_now();
        }
        child
    }

    #[tokio::test]
    async fn only_the_server_on_this_database_is_stopped() {
        let directory = tempfile::tempdir().unwrap();
        let (mine, other) = (directory.path().join("mine.db"), directory.path().join("other.db"));
        fs::write(&other, "").unwrap();
        let mut bystander = process_on(&other);
        let file = PidFile::new(directory.path().join("temporal.pid"));
        file.write(bystander.id());
        file.stop_left_behind(&mine).await;
        assert!(bystander.try_wait().unwrap().is_none());
        assert!(!file.path.exists());

        file.write(bystander.id());
        // Reaped here, as the system does for a process whose parent is gone.
        let reaped = std::thread::spawn(move || bystander.wait().unwrap());
        file.stop_left_behind(&other).await;
        assert!(!reaped.join().unwrap().success());
    }

    #[test]
    fn an_invalid_process_id_is_ignored() {
        for text in ["", "x", "0", "99999999999999999999"] {
            assert_eq!(pid(text), None, "{text}");
        }
    }
}
