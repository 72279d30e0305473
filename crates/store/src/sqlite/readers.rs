//! Reads run on a small pool of read-only connections, off the async threads and never behind a write.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connection;
use crate::{Result, StoreError};

/// Reads that run at the same time; the others wait their turn.
const READERS: usize = 4;

#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    turns: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, turns: Semaphore::new(READERS), idle: Mutex::new(Vec::new()) }
    }

    /// Runs `work` on one snapshot of the database.
    pub(super) async fn read<T, F>(self: &Arc<Self>, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let pool = Arc::clone(self);
        let _turn = self.turns.acquire().await.map_err(|_| unavailable("the store is closed"))?;
        tokio::task::spawn_blocking(move || pool.run(work)).await.map_err(unavailable)?
    }

    /// Refuses further reads and lets the idle connections go.
    pub(super) fn close(&self) {
        self.turns.close();
        self.idle().clear();
    }

    fn run<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.idle().pop();
        let mut sql = match idle {
            Some(sql) => sql,
            None => connection::open_reader(&self.path)?,
        };
        let snapshot = sql.transaction()?;
        let outcome = work(&snapshot);
        snapshot.finish()?;
        if !self.turns.is_closed() {
            self.idle().push(sql);
        }
        outcome
    }

    /// A panic elsewhere leaves the list whole: every change to it is a single step.
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unavailable(detail: impl ToString) -> StoreError {
    StoreError::Unavailable { action: "read", detail: detail.to_string() }
}
