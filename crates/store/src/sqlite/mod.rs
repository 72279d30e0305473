//! The embedded adapter: one SQLite file, shared by every process on the machine that opens it.
//!
//! Writes go through one thread that commits them in groups; reads run beside it on snapshots. This module opens and
//! closes the store, `store` maps the trait onto the modules, and each of those owns its tables' SQL.

mod blobs;
mod calls;
mod columns;
mod connection;
mod events;
mod failure;
mod migrations;
mod notes;
mod plans;
mod poll;
mod readers;
mod record;
mod runs;
mod sessions;
mod store;
mod transcript;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use windlass_core::time::Timestamp;

pub use self::writer::Stats;
use self::{poll::Poller, readers::Readers, writer::Writer};
use crate::{Result, StoreError, watch::Watchers};

/// Where the store's times come from.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The end of the process, of the system and of the power supply.
    #[default]
    Full,
    /// The end of the process; the last writes may be lost with the system. Nothing is ever torn.
    Relaxed,
}

#[derive(Clone)]
pub struct Options {
    /// The database file. It and its directory are created when they are missing.
    pub path: PathBuf,
    pub durability: Durability,
    pub clock: Clock,
}

impl Options {
    /// Full durability and the system's clock.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), durability: Durability::default(), clock: Arc::new(system_time) }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("path", &self.path)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

fn system_time() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

/// A [`Store`](crate::Store) in a SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    parts: Arc<Parts>,
}

#[derive(Debug)]
struct Parts {
    writer: Writer,
    readers: Arc<Readers>,
    watchers: Arc<Watchers>,
    poller: Poller,
}

impl SqliteStore {
    /// Opens the file, creates or upgrades its schema and starts the writer.
    pub fn open(options: Options) -> Result<Self> {
        let Options { path, durability, clock } = options;
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(|error| StoreError::Unavailable {
                action: "create its directory",
                detail: format!("{}: {error}", directory.display()),
            })?;
        }
        let mut sql = connection::open_writer(&path, durability)?;
        migrations::migrate(&mut sql, &path)?;
        let watchers = Arc::new(Watchers::default());
        let writer = Writer::start(sql, clock, Arc::clone(&watchers))?;
        let poller = Poller::start(connection::open_reader(&path)?, Arc::clone(&watchers))?;
        let readers = Arc::new(Readers::new(path));
        Ok(Self { parts: Arc::new(Parts { writer, readers, watchers, poller }) })
    }

    /// Finishes the writes it has accepted, refuses new ones, ends all watches and lets the file go. Dropping the store
    /// does the same, but blocks its thread meanwhile.
    pub async fn close(&self) -> Result<()> {
        let parts = Arc::clone(&self.parts);
        tokio::task::spawn_blocking(move || parts.shut())
            .await
            .map_err(|error| StoreError::Unavailable { action: "close", detail: error.to_string() })
    }

    pub fn stats(&self) -> Stats {
        self.parts.writer.stats()
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.parts.shut();
    }
}

impl Parts {
    fn shut(&self) {
        self.watchers.close();
        self.readers.close();
        self.writer.close();
        self.poller.join();
    }
}
