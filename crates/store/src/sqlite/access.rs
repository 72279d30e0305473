//! How the store uses its database: the transaction of a write, the limit of concurrent writes, and which writes wait for
//! the disk.

use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::SemaphorePermit;
use windlass_core::{ids::RunId, time::Timestamp};
use windlass_sqlite::{Ack, DatabaseError};

use super::Parts;
use crate::Result;

/// Beyond this number of writes, callers wait.
pub(super) const MAX_CONCURRENT_WRITES: usize = 1024;

/// The transaction of one write.
pub(super) struct Tx<'c> {
    pub(super) sql: &'c Connection,
    pub(super) now: Timestamp,
    reached: Vec<(RunId, u64)>,
}

impl Tx<'_> {
    /// The run's log grows to `seq` if this write is committed.
    pub(super) fn log_reaches(&mut self, run: &RunId, seq: u64) {
        self.reached.push((run.clone(), seq));
    }
}

impl Parts {
    /// Carries out `work` and returns once its effect is durable. A caller that goes away does not stop it.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.write_until(Ack::Durable, work).await
    }

    /// As [`write`](Self::write), for work that takes long: the caller's thread does not execute it.
    pub(super) async fn write_long<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        let _turn = self.turn().await?;
        self.database.submit(Ack::Durable, self.job(work)).await
    }

    /// A relaxed write: carries out `work`, which is part of a run. It waits for the disk only if the store was opened so;
    /// see the documentation of the parent module.
    pub(super) async fn write_relaxed<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.write_until(self.relaxed, work).await
    }

    /// A relaxed write to a run's log. It is synced at once if a reader waits for the run's events.
    pub(super) async fn write_log<T, F>(&self, run: &RunId, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        let ack = match self.relaxed {
            Ack::Relaxed if self.watchers.is_watched(run) => Ack::Prompt,
            other => other,
        };
        self.write_until(ack, work).await
    }

    /// A write of a model's response. Returns before the sync, unless the store was opened so that all writes wait. What
    /// calls a tool or a model first waits for [`response_on_disk`](Self::response_on_disk).
    pub(super) async fn write_response<T, F>(&self, run: &RunId, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        if self.relaxed == Ack::Durable {
            return self.write(work).await;
        }
        let response = self.unsynced.begin(run);
        let job = self.job(work);
        let watched = move |database: &windlass_sqlite::Tx<'_>| {
            let outcome = job(database)?;
            let response = Arc::clone(&response);
            database.after_sync(move || response.synced());
            Ok(outcome)
        };
        let _turn = self.turn().await?;
        self.database.submit_at_once(Ack::Eager, watched).await
    }

    /// Returns once the last response of the run's model is synced.
    pub(super) async fn response_on_disk(&self, run: &RunId) -> Result<()> {
        match self.unsynced.wait(run).await {
            true => Ok(()),
            // Only a failed sync loses an acknowledged write.
            false => Ok(self.database.synced().await?),
        }
    }

    /// A relaxed write if its effect may be repeated, otherwise a durable one.
    pub(super) async fn write_relaxed_if<T, F>(&self, repeatable: bool, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.write_until(if repeatable { self.relaxed } else { Ack::Durable }, work).await
    }

    /// Runs `work` on one snapshot of the database.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        // A shared database would still answer; but a reader that follows a log ends only when a read is refused.
        if self.turns.is_closed() {
            return Err(DatabaseError::Closed.into());
        }
        self.database.read(work).await
    }

    async fn write_until<T, F>(&self, ack: Ack, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        let _turn = self.turn().await?;
        self.database.submit_at_once(ack, self.job(work)).await
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>> {
        self.turns.acquire().await.map_err(|_| DatabaseError::Closed.into())
    }

    /// What the database executes: `work`, and after the sync its news for watchers.
    fn job<T, F>(&self, work: F) -> impl Fn(&windlass_sqlite::Tx<'_>) -> Result<T> + Send + 'static
    where
        F: Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        let (clock, watchers) = (Arc::clone(&self.clock), Arc::clone(&self.watchers));
        move |database| {
            let mut tx = Tx { sql: database, now: clock(), reached: Vec::new() };
            let outcome = work(&mut tx)?;
            let reached = tx.reached;
            if !reached.is_empty() {
                let watchers = Arc::clone(&watchers);
                database.after_sync(move || reached.iter().for_each(|(run, seq)| watchers.reached(run, *seq)));
            }
            Ok(outcome)
        }
    }
}
