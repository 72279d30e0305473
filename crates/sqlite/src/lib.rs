//! One SQLite file, its write-ahead log and the one connection that writes to it, shared by all components of a process
//! that store data.
//!
//! - Writes are queued and committed in groups ([`Database::submit`], [`Database::apply`]). Short ones are executed on
//!   their caller's thread if no other write comes first ([`Database::submit_at_once`], [`Database::apply_at_once`]);
//!   one thread commits and syncs. Reads run concurrently on snapshots ([`Database::read`]).
//! - A write chooses when it is acknowledged ([`Ack`]). Relaxed writes share the commit of the next durable one. A
//!   commit only reaches the write-ahead log; this crate syncs the log itself, once for all waiting writes. The log is
//!   recovered as a prefix, so a sync covers every commit before it: a relaxed write becomes durable with the next
//!   durable one.
//! - Bodies in columns may be compressed ([`pack`]).
//! - Each component defines its tables ([`Database::migrate`]) and their SQL. This crate has none.

mod backup;
mod check;
mod checkpoint;
mod connection;
mod damage;
mod database;
mod error;
mod examine;
mod faults;
mod hash;
mod job;
mod log;
mod migrate;
pub mod pack;
pub mod private;
mod readers;
mod stats;
mod transaction;
mod upgrade;
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
    hash::short_hash,
    job::{Ticket, Tx},
    stats::Stats,
    upgrade::upgrade_alone,
};

pub type Result<T> = std::result::Result<T, DatabaseError>;

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A crash of the process, a crash of the system, and a power failure.
    #[default]
    Full,
    /// A crash of the process. The last writes may be lost in a crash of the system. No write is ever stored in part.
    Relaxed,
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// After it is synced to disk; with [`Durability::Relaxed`], after it is committed.
    Durable,
    /// After it is executed, in the order of the writes. All reads of this process see it from then on, and no later
    /// write is stored without it. It is committed and synced with the next durable write, or after about 10 ms without
    /// one; a crash of the process before that loses it.
    Relaxed,
    /// As [`Relaxed`](Self::Relaxed), but a reader waits for it: after it is acknowledged, it is committed and synced at
    /// once, unless there was a sync less than 10 ms ago. So there are no more such syncs than one every 10 ms.
    Prompt,
    /// As [`Relaxed`](Self::Relaxed), but after it is acknowledged, it is committed and synced at once. The caller goes on
    /// meanwhile, and learns from [`Tx::after_sync`] when it may act on the write.
    Eager,
}

#[derive(Clone)]
pub struct Options {
    /// The database file. It and its directory are created when they are missing.
    pub path: PathBuf,
    pub durability: Durability,
    /// Fault injection, for tests.
    pub faults: Option<Arc<dyn Faults>>,
}

impl Options {
    /// Full durability, no faults.
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
