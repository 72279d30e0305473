//! One SQLite file, its write-ahead log and the one thread that writes to it, shared by everything in a process that
//! keeps something.
//!
//! - Writes queue up and are committed in groups ([`Database::submit`], [`Database::apply`]); reads run beside them on
//!   snapshots ([`Database::read`]).
//! - A write says what it waits for ([`Ack`]). Those that do not wait for the disk share the commit of the next one that
//!   does. A commit only reaches the write-ahead log; this crate syncs the log itself, once for everybody who waits. The
//!   log is recovered as a prefix, so a sync covers every commit before it: a write that did not wait is made safe by
//!   the next one that does.
//! - Each component brings its tables ([`Database::migrate`]) and owns their SQL. This crate knows none of it.

mod backup;
mod check;
mod checkpoint;
mod connection;
mod damage;
mod database;
mod error;
mod examine;
mod faults;
mod job;
mod log;
mod migrate;
pub mod private;
mod readers;
mod stats;
mod transaction;
mod writer;

#[cfg(test)]
mod tests;

use std::{fmt, path::PathBuf, sync::Arc};

pub use self::{
    backup::{BackupError, Restored, backup, restore},
    damage::Failure,
    database::Database,
    error::{DatabaseError, ErrorKind, is_row_error},
    examine::{Examined, Progress, TableCheck, examine, row_name},
    faults::Faults,
    job::{Ticket, Tx},
    stats::Stats,
};

pub type Result<T> = std::result::Result<T, DatabaseError>;

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The end of the process, of the system and of the power supply.
    #[default]
    Full,
    /// The end of the process; the last writes may be lost with the system. Nothing is ever torn.
    Relaxed,
}

/// When a write is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// Once it is synced to disk; with [`Durability::Relaxed`], once it is committed.
    Durable,
    /// Once it is carried out, in the order of the writes. Everybody in this process sees it from then on, and no later
    /// write survives anything without it. It is committed and synced with the next durable write of anybody, and
    /// without one after about 10 ms; what ends the process before that takes it along.
    Relaxed,
}

#[derive(Clone)]
pub struct Options {
    /// The database file. It and its directory are created when they are missing.
    pub path: PathBuf,
    pub durability: Durability,
    /// Makes the disk fail, for tests.
    pub faults: Option<Arc<dyn Faults>>,
}

impl Options {
    /// Full durability and a disk that works.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), durability: Durability::default(), faults: None }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("path", &self.path)
            .field("durability", &self.durability)
            .field("faults", &self.faults.is_some())
            .finish()
    }
}
