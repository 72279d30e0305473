//! The embedded adapter: one SQLite file, shared by every process on the machine that opens it.
//!
//! This module opens and closes the store. Each module beside it implements the trait of one aggregate and owns the SQL of
//! its tables: it encodes on the caller's thread, then hands a closure to the writer or to a reader. `windlass-sqlite`
//! groups writes into commits and syncs them.
//!
//! Beside an engine that keeps its histories in the same file ([`SqliteStore::on`]), most writes need not wait for the
//! disk. What an activity writes is acted on only after its completion, which the engine commits later to the same log
//! and syncs: that sync covers the write too. A power failure before the sync loses both; the activity is retried and
//! finds or repeats an idempotent write. The same holds for a blob, which is unreachable until something that refers to
//! it is written, and for the reservation of a run, which counts only once its workflow is started. A model response,
//! which was paid for, is synced at once; the run goes on meanwhile, but neither a tool nor a model is called before the
//! response is on the disk. These writes do wait: the claim of a call that must not be executed twice, because the call
//! begins before any completion, and its result, because nothing else has it; and sessions, keys, notes and
//! housekeeping, because they belong to no run and may answer a person. A reader of a log does not get events that are
//! not synced yet; so text of a model whose run is followed is synced at once.

mod access;
mod approvals;
mod blobs;
mod calls;
mod columns;
mod compact;
mod conversation;
mod events;
mod examine;
mod failure;
mod filter;
mod housekeeping;
mod installation;
mod keys;
mod notes;
mod plans;
mod poll;
mod push;
mod record;
mod reservations;
mod runs;
mod secrets;
mod sessions;
mod splice;
mod state;
mod sweep;
mod sweep_counts;
mod transcript;
mod unsynced;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::sync::Semaphore;
pub use windlass_sqlite::{Ack, Database, Durability, Stats};

pub use self::{examine::examine, splice::own_text};

use self::{poll::Poller, unsynced::Unsynced};
use crate::{Clock, Result, StoreError, system_clock, watch::Watchers};

/// The name and the version under which this build's tables are known to a database.
pub const SCHEMA: (&str, usize) = ("store", MIGRATIONS.len());

/// A released migration is never edited; a change of the schema is a new file at the end of the list.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_front_door.sql"),
    include_str!("migrations/0003_in_order.sql"),
    include_str!("migrations/0004_authority.sql"),
    include_str!("migrations/0005_start.sql"),
    include_str!("migrations/0006_secrets.sql"),
    include_str!("migrations/0007_conversation_prefix.sql"),
    include_str!("migrations/0008_body_refs.sql"),
    include_str!("migrations/0009_approvals.sql"),
    include_str!("migrations/0010_push_configs.sql"),
    include_str!("migrations/0011_compact_rows.sql"),
];

/// The version that no process of an older build can work with, so that it is made by one that is alone.
const ALONE: usize = 11;

/// Upgrades the tables of a file where no other process may have it open, and refuses if one has. To be called before a
/// database is opened that a store is to use ([`SqliteStore::on`]).
pub fn upgrade(path: &Path) -> Result<()> {
    Ok(windlass_sqlite::upgrade_alone(path, SCHEMA.0, MIGRATIONS, ALONE)?)
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
        Self { path: path.into(), durability: Durability::default(), clock: system_clock() }
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

/// A [`Store`](crate::Store) in a SQLite file.
pub struct SqliteStore {
    parts: Arc<Parts>,
}

struct Parts {
    database: Database,
    /// Whether the database ends with the store.
    sole_user: bool,
    clock: Clock,
    /// What relaxed writes wait for: their result is acted on only after a later durable commit.
    relaxed: Ack,
    turns: Semaphore,
    watchers: Arc<Watchers>,
    unsynced: Arc<Unsynced>,
    poller: Poller,
}

impl SqliteStore {
    /// Opens a file of the store's own.
    pub fn open(options: Options) -> Result<Self> {
        let Options { path, durability, clock } = options;
        upgrade(&path)?;
        let database = Database::open(windlass_sqlite::Options { durability, ..windlass_sqlite::Options::new(path) })?;
        Self::start(database, clock, Ack::Durable, true)
    }

    /// Uses a database that others use too, and leaves it open when it is closed itself. With [`Ack::Relaxed`] the
    /// writes of activities rely on the engine's next commit to the same database.
    pub fn on(database: Database, clock: Clock, relaxed: Ack) -> Result<Self> {
        Self::start(database, clock, relaxed, false)
    }

    fn start(database: Database, clock: Clock, relaxed: Ack, sole_user: bool) -> Result<Self> {
        if (1..ALONE).contains(&database.version(SCHEMA.0)?) {
            // The caller opened it without a call of `upgrade` before.
            return Err(StoreError::InUse { database: database.path().display().to_string() });
        }
        database.migrate(SCHEMA.0, MIGRATIONS)?;
        let watchers = Arc::new(Watchers::default());
        let poller = Poller::start(database.reader()?, Arc::clone(&watchers))?;
        let turns = Semaphore::new(access::MAX_CONCURRENT_WRITES);
        let unsynced = Arc::default();
        Ok(Self { parts: Arc::new(Parts { database, sole_user, clock, relaxed, turns, watchers, unsynced, poller }) })
    }

    /// Finishes accepted writes, refuses new ones, ends all watches and closes the file. Dropping the store does the same,
    /// and blocks its thread meanwhile.
    pub async fn close(&self) -> Result<()> {
        let parts = Arc::clone(&self.parts);
        tokio::task::spawn_blocking(move || parts.shut())
            .await
            .map_err(|error| StoreError::Unavailable { action: "close", detail: error.to_string() })?;
        if self.parts.sole_user {
            self.parts.database.close().await?;
        }
        Ok(())
    }

    pub fn stats(&self) -> Stats {
        self.parts.database.stats()
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("database", &self.parts.database).finish_non_exhaustive()
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
        self.turns.close();
        self.poller.join();
    }
}
