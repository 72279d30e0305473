//! A peer with its server or Postgres, if it has one, on one directory: started, stopped in an orderly way, killed, started
//! again.

use std::{fs, iter, path::PathBuf, process::Command};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    disk,
    install::{self, Installed},
    postgres,
    processes::{self, Server},
    program::Program,
    restate::{self, Ports},
    system::System,
};
use crate::{bench::free_port, cargo::root};

/// Postgres keeps its log here, in files that it creates ahead and uses again.
const POSTGRES_LOG: &str = "pg_wal";

pub(super) struct Session<'a> {
    system: System,
    installed: &'a Installed,
    home: PathBuf,
    ports: Ports,
    running: Option<Running>,
}

struct Running {
    // Dropped first: it is the server's client.
    program: Program,
    server: Option<Server>,
}

impl<'a> Session<'a> {
    /// Starts on an empty directory.
    pub(super) fn open(system: System, installed: &'a Installed, home: PathBuf) -> Result<Self> {
        if home.exists() {
            fs::remove_dir_all(&home).with_context(|| format!("{} could not be emptied", home.display()))?;
        }
        fs::create_dir_all(&home).with_context(|| format!("{} could not be created", home.display()))?;
        let ports = Ports { ingress: free_port()?, admin: free_port()?, fabric: free_port()?, worker: free_port()? };
        if needs_postgres(system) {
            postgres::create(&home)?;
        }
        let mut session = Self { system, installed, home, ports, running: None };
        session.start()?;
        Ok(session)
    }

    /// Starts on what is there.
    pub(super) fn start(&mut self) -> Result<()> {
        let server = match self.system {
            System::Sdk => None,
            System::Restate => Some(restate::start(&self.installed.restate_server, &self.home, self.ports)?),
            _ => Some(postgres::start(&self.home)?),
        };
        let program = Program::start(&mut self.program())?;
        if self.system == System::Restate {
            restate::register(self.ports)?;
        }
        self.running = Some(Running { program, server });
        Ok(())
    }

    fn program(&self) -> Command {
        let mut command;
        match self.system {
            System::Restate => {
                command = Command::new(install::program("peer-restate"));
                command.env("INGRESS", format!("http://127.0.0.1:{}", self.ports.ingress));
                command.env("LISTEN", format!("127.0.0.1:{}", self.ports.worker));
            }
            System::Sdk => command = Command::new(install::program("peer-sdk")),
            System::Dbos => command = Command::new(install::program("peer-dbos")),
            _ => {
                command = Command::new("python3");
                command.arg(root().join("xtask/peers/langgraph/work.py"));
                command.env("PYTHONPATH", &self.installed.langgraph);
            }
        }
        if needs_postgres(self.system) {
            command.env("DATABASE", postgres::url(&self.home));
        }
        command
    }

    pub(super) fn order(&mut self, order: &Value) -> Result<Value> {
        let running = self.running.as_mut().context("nothing is running")?;
        running.program.order(order).with_context(|| format!("{} failed", self.system.name()))
    }

    /// Ends program and server in an orderly way, so that what they keep is on the disk in its final form.
    pub(super) fn stop(&mut self) -> Result<()> {
        let Some(Running { program, server }) = self.running.take() else { return Ok(()) };
        program.stop()?;
        // Postgres waits for clients after SIGTERM, and writes a checkpoint and ends after SIGINT.
        server.map_or(Ok(()), |server| server.stop(if self.system == System::Restate { "-TERM" } else { "-INT" }))
    }

    /// `kill -9` of everything.
    pub(super) fn kill(&mut self) {
        if let Some(running) = &self.running {
            running.pids().for_each(processes::kill_family);
        }
        self.running = None;
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.running.iter().flat_map(Running::pids).collect()
    }

    pub(super) fn cpu_ms(&self) -> f64 {
        processes::cpu_ms(&self.pids())
    }

    pub(super) fn settled_memory(&self) -> u64 {
        processes::settled_memory(&self.pids())
    }

    pub(super) fn bytes(&self) -> Result<u64> {
        Ok(disk::bytes(&self.home, "")?)
    }

    /// Without the log of Postgres, which holds nothing more after an orderly end.
    pub(super) fn bytes_at_rest(&self) -> Result<u64> {
        Ok(disk::bytes(&self.home, POSTGRES_LOG)?)
    }
}

impl Running {
    fn pids(&self) -> impl Iterator<Item = u32> {
        iter::once(self.program.pid()).chain(self.server.as_ref().map(Server::pid))
    }
}

fn needs_postgres(system: System) -> bool {
    matches!(system, System::Dbos | System::Langgraph)
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.home);
    }
}
