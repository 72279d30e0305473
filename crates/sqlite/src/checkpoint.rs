//! Folding the write-ahead log into the database file.
//!
//! A checkpoint writes and syncs a lot; inside a commit it would make everybody wait. So a thread with a connection of
//! its own does it while the writer goes on, and the writer folds in the little that was added meanwhile: only a log
//! that is folded in completely starts again from its beginning. A writer that has had nothing to do for a while folds
//! in what there is, so that a database at rest is small and opens at once.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use rusqlite::Connection;

use crate::{DatabaseError, Result, connection, writer::Order};

/// Pages in the log from which on it is folded in while everybody works: 64 MiB. The longer it gets, the more often the
/// same page is in it, and only the last one counts.
const CHECKPOINT_PAGES: i64 = 16 * 1024;

/// Pages that make another attempt worth while when a reader kept the log from starting again.
const RETRY_PAGES: i64 = CHECKPOINT_PAGES / 8;

/// Pages that the writer may be left with, and how often the thread tries to leave it fewer.
const REMAINING_PAGES: i64 = 256;
const ROUNDS: usize = 4;

/// Pages for which a writer that has nothing else to do folds the log in: 1 MiB.
const IDLE_CHECKPOINT_PAGES: i64 = 256;

pub(crate) struct Checkpointer {
    wake: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    busy: bool,
    /// What the last attempt could not fold in, because readers still needed the older pages.
    left: i64,
}

impl Checkpointer {
    pub(crate) fn start(sql: Connection, orders: Sender<Order>) -> Result<Self> {
        let (wake, woken) = channel();
        let thread = thread::Builder::new()
            .name("windlass-db-ckpt".to_owned())
            .spawn(move || checkpoint_thread(&sql, &woken, &orders))
            .map_err(|error| DatabaseError::unavailable("start its checkpointer", error))?;
        Ok(Self { wake: Some(wake), thread: Some(thread), busy: false, left: 0 })
    }

    /// Starts a checkpoint if the log has become large.
    pub(crate) fn look(&mut self, sql: &Connection, log_pages: i64) {
        if self.busy || log_pages < CHECKPOINT_PAGES {
            return;
        }
        if measure(sql).is_some_and(|log| log.pending() >= self.left + RETRY_PAGES) {
            self.busy = self.wake.as_ref().is_some_and(|wake| wake.send(()).is_ok());
        }
    }

    /// The writer has folded in the rest.
    pub(crate) fn finished(&mut self, sql: &Connection) {
        self.busy = false;
        self.left = measure(sql).map_or(0, |log| log.pending());
    }

    pub(crate) fn stop(&mut self) {
        self.wake.take();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the checkpointer panicked");
        }
    }
}

fn checkpoint_thread(sql: &Connection, woken: &Receiver<()>, orders: &Sender<Order>) {
    while woken.recv().is_ok() {
        for _ in 0..ROUNDS {
            passive(sql);
            if measure(sql).is_none_or(|log| log.pending() <= REMAINING_PAGES) {
                break;
            }
        }
        if orders.send(Order::FinishCheckpoint).is_err() {
            return;
        }
    }
}

/// Folds in what no reader needs any more, without making anybody wait.
pub(crate) fn passive(sql: &Connection) {
    run(sql, "PRAGMA wal_checkpoint(PASSIVE)");
}

/// Folds everything in and cuts the file off, if that is worth it and nobody else is at work. Returns whether it did.
pub(crate) fn checkpoint_if_idle(sql: &Connection) -> bool {
    if measure(sql).is_none_or(|log| log.pages < IDLE_CHECKPOINT_PAGES) || sql.busy_timeout(Duration::ZERO).is_err() {
        return false;
    }
    let idle_checkpoint_done = run(sql, "PRAGMA wal_checkpoint(TRUNCATE)");
    if let Err(error) = sql.busy_timeout(connection::BUSY_TIMEOUT) {
        tracing::warn!(%error, "a connection no longer waits for other processes");
    }
    idle_checkpoint_done
}

/// Returns whether the log was folded in completely.
fn run(sql: &Connection, pragma: &str) -> bool {
    let busy = sql.prepare_cached(pragma).and_then(|mut pragma| pragma.query_row([], |row| row.get::<_, bool>(0)));
    match busy {
        Ok(busy) => !busy,
        Err(error) => {
            // Nothing is lost: the log stays and the next attempt takes it.
            tracing::warn!(%error, "the write-ahead log was not folded into the database");
            false
        }
    }
}

/// How far the log reaches. Its file does not tell, because it is reused.
pub(crate) struct Extent {
    pub(crate) pages: i64,
    checkpointed: i64,
}

impl Extent {
    fn pending(&self) -> i64 {
        self.pages - self.checkpointed
    }
}

pub(crate) fn measure(sql: &Connection) -> Option<Extent> {
    let mut pragma = sql.prepare_cached("PRAGMA wal_checkpoint(NOOP)").ok()?;
    pragma.query_row([], |row| Ok(Extent { pages: row.get(1)?, checkpointed: row.get(2)? })).ok()
}
