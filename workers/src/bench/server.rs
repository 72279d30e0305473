//! CPU, memory and disk of the Temporal server, if its process and database are given.

use std::{io, path::PathBuf, time::Duration};

use super::system;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ServerSide {
    pub(super) pid: Option<u32>,
    pub(super) database: Option<PathBuf>,
}

impl ServerSide {
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        self.pid.and_then(system::cpu_time)
    }

    pub(super) fn resident_bytes(&self) -> Option<u64> {
        self.pid.and_then(system::resident_bytes)
    }

    pub(super) fn disk_bytes(&self) -> io::Result<u64> {
        self.database.as_deref().map_or(Ok(0), system::database_bytes)
    }
}
