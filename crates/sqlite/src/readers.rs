//! A small pool of read-only connections. Reads never wait for a write.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::{DatabaseError, Failure, Result, connection, damage::Damage};

/// Asynchronous reads that run at the same time; others wait.
const READERS: usize = 4;

/// Idle connections kept open, also for blocking reads.
const MAX_IDLE: usize = 8;

#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    permits: Semaphore,
    idle: Mutex<Vec<Connection>>,
    closed: AtomicBool,
    damage: Arc<Damage>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf, damage: Arc<Damage>) -> Self {
        let (permits, idle) = (Semaphore::new(READERS), Mutex::new(Vec::new()));
        Self { path, permits, idle, closed: AtomicBool::new(false), damage }
    }

    pub(crate) async fn read<T, E, F>(self: &Arc<Self>, work: F) -> std::result::Result<T, E>
    where
        T: Send + 'static,
        E: Failure,
        F: FnOnce(&Connection) -> std::result::Result<T, E> + Send + 'static,
    {
        let pool = Arc::clone(self);
        let _permit = self.permits.acquire().await.map_err(|_| DatabaseError::Closed)?;
        tokio::task::spawn_blocking(move || pool.read_blocking(work))
            .await
            .map_err(|error| DatabaseError::unavailable("read", error))?
    }

    pub(crate) fn read_blocking<T, E: Failure>(
        &self,
        work: impl FnOnce(&Connection) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if self.closed.load(Ordering::Acquire) {
            return Err(DatabaseError::Closed.into());
        }
        let idle = self.idle().pop();
        let sql = match idle {
            Some(sql) => sql,
            None => connection::open_reader(&self.path)?,
        };
        execute(&sql, "BEGIN")?;
        let outcome = work(&sql);
        self.damage.note_outcome(&outcome);
        execute(&sql, "ROLLBACK")?;
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE && !self.closed.load(Ordering::Acquire) {
            idle.push(sql);
        }
        outcome
    }

    /// Rejects further reads and closes the idle connections.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.permits.close();
        self.idle().clear();
    }

    /// A panic elsewhere leaves the list valid: every change is a single step.
    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn execute(sql: &Connection, statement: &str) -> Result<()> {
    Ok(sql.prepare_cached(statement).and_then(|mut statement| statement.execute([])).map(drop)?)
}
