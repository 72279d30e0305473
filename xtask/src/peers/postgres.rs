//! A Postgres server for one session: its own data directory and socket, no port, and the settings of a new installation.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::processes::Server;
use crate::{cargo::run as run_command, postgres};

const USER: &str = "peer";
const PATIENCE: Duration = Duration::from_secs(60);
/// Debian's account for the server, which does not run as root.
const ACCOUNT: &str = "postgres";

/// Creates an empty database in `home/data`.
pub(super) fn create(home: &Path) -> Result<()> {
    let binaries = postgres::binaries()?;
    if let Some((user, group)) = account()? {
        chown(home, Some(user), Some(group)).with_context(|| format!("{} cannot be given away", home.display()))?;
    }
    let mut initdb = server_command(&binaries.join("initdb"), home)?;
    initdb.args(["--auth=trust", "--encoding=UTF8", "--no-locale", "--username", USER, "-D", "data"]);
    run_command(initdb.stdout(Stdio::null()))
}

/// Starts the server on `home/data` and waits until it takes connections.
pub(super) fn start(home: &Path) -> Result<Server> {
    let binaries = postgres::binaries()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut command = server_command(&binaries.join("postgres"), home)?;
        command.args(["-D", "data", "-c", "listen_addresses=", "-c", "max_connections=200", "-k"]).arg(home);
        let mut server = Server::start(&mut command)?;
        while !server.has_ended() {
            if is_ready(&fs::read_to_string(home.join("data/postmaster.pid")).unwrap_or_default(), server.pid()) {
                return Ok(server);
            }
            if Instant::now() > deadline {
                bail!("Postgres did not come up in {}", home.display());
            }
            thread::sleep(Duration::from_millis(20));
        }
        // After kill -9 the processes of the old server may still be ending.
        if Instant::now() > deadline {
            bail!("Postgres ended in {}", home.display());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Whether the server's lock file says that it takes connections. One that was killed leaves its file behind.
fn is_ready(lock: &str, pid: u32) -> bool {
    let mut lines = lock.lines();
    lines.next() == Some(&pid.to_string()) && lines.nth(6).map(str::trim) == Some("ready")
}

/// The URL of its database, through the socket.
pub(super) fn url(home: &Path) -> String {
    format!("postgres://{USER}@localhost/postgres?host={}", home.display())
}

/// A command as the server's user, in its directory.
fn server_command(program: &PathBuf, home: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    if let Some((user, group)) = account()? {
        command.uid(user).gid(group);
    }
    command.current_dir(home);
    Ok(command)
}

/// The account for the server if this is root, whom Postgres refuses.
fn account() -> Result<Option<(u32, u32)>> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let accounts = fs::read_to_string("/etc/passwd")?;
    let found = account_in(&accounts);
    found.map(Some).with_context(|| format!("there is no account `{ACCOUNT}`, and Postgres does not run as root"))
}

fn account_in(accounts: &str) -> Option<(u32, u32)> {
    let mut fields = accounts.lines().map(|line| line.split(':')).find(|line| line.clone().next() == Some(ACCOUNT))?;
    Some((fields.nth(2)?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_ready_when_its_own_lock_file_says_so() {
        let lock = |status| format!("42\n/d\n1795000000\n5432\n/d\n\n 589849 1\n{status}\n");
        assert!(is_ready(&lock("ready   "), 42));
        assert!(!is_ready(&lock("starting"), 42) && !is_ready(&lock("ready   "), 43) && !is_ready("", 42));
    }

    #[test]
    fn the_account_is_found_by_its_name() {
        let accounts = "root:x:0:0:root:/:/bin/bash\npostgres:x:101:104:PostgreSQL:/var/lib/postgresql:/bin/bash\n";
        assert_eq!(account_in(accounts), Some((101, 104)));
        assert_eq!(account_in("root:x:0:0::/:/bin/sh\n"), None);
    }
}
