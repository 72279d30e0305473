//! A server that is a child process.
//!
//! It is the leader of a process group of its own. The whole group is killed when the connection is closed or dropped. If
//! the worker itself is killed, the child reads the end of its standard input, which is when a server has to exit.

use std::{collections::BTreeMap, path::PathBuf, process::Stdio, time::Duration};

use rmcp::{RoleClient, transport::async_rw::AsyncRwTransport};
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use tokio_util::task::TaskTracker;

use super::{failure, post::MAX_MESSAGE};
use crate::ToolFailure;

/// What a child gets of the worker's environment, which also has keys that are none of its business.
pub(super) const INHERITED: [&str; 10] =
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];
/// How long a server may take to exit after its standard input was closed.
const GRACE: Duration = Duration::from_secs(2);
/// The longest piece of a line of standard error that is logged at once.
const LOGGED_BYTES: u64 = 1024;

pub(super) type Transport = AsyncRwTransport<RoleClient, ChildStdout, ChildStdin>;

/// A child process. Dropping it kills its process group.
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
}

pub(super) fn spawn(
    program: &str,
    args: &[String],
    env: &BTreeMap<String, SecretString>,
    cwd: Option<&PathBuf>,
    tasks: &TaskTracker,
) -> Result<(Transport, Process), ToolFailure> {
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .envs(env.iter().map(|(name, value)| (name, value.expose_secret())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(directory) = cwd {
        command.current_dir(directory);
    }
    let mut child = command.spawn().map_err(|error| not_started(program, &error))?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let process = Process { child, group };
    let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(failure::unavailable("the process of the MCP server has no standard streams"));
    };
    tasks.spawn(log(program.to_owned(), stderr, env.values().cloned().collect()));
    Ok((AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MAX_MESSAGE), process))
}

fn not_started(program: &str, error: &std::io::Error) -> ToolFailure {
    let message = format!("the MCP server's program {program:?} cannot be started: {error}");
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => failure::unusable(message),
        _ => failure::unavailable(message),
    }
}

impl Process {
    /// Waits until the leader of the group has exited.
    pub(super) async fn exited(&mut self) {
        let _ = self.child.wait().await;
    }

    /// Lets the process exit, whose standard input is closed by now, and kills what is left of its group.
    pub(super) async fn end(mut self) {
        let _ = timeout(GRACE, self.child.wait()).await;
        self.kill();
        let _ = self.child.wait().await;
    }

    pub(super) fn kill(&self) {
        if let Some(group) = self.group {
            // There is no such group if every process in it has exited.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Why a server that closed its output during the handshake did so.
    pub(super) async fn post_mortem(mut self) -> ToolFailure {
        let ended = match timeout(GRACE, self.child.wait()).await {
            Ok(Ok(status)) => format!("the MCP server's process ended during the handshake ({status})"),
            _ => "the MCP server's process closed its output during the handshake".to_owned(),
        };
        failure::unavailable(format!("{ended}; its standard error is in the worker's log at level debug"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Logs standard error. What the process was given as a secret is blanked out.
async fn log(program: String, stderr: ChildStderr, secrets: Vec<SecretString>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut stderr).take(LOGGED_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if tracing::enabled!(tracing::Level::DEBUG) {
            let mut text = String::from_utf8_lossy(&line).trim_end().to_owned();
            for secret in secrets.iter().map(|secret| secret.expose_secret()).filter(|secret| !secret.is_empty()) {
                text = text.replace(secret, "[secret]");
            }
            tracing::debug!(program, "{text}");
        }
    }
}
