//! Checkpoints of the write-ahead log.
//!
//! A checkpoint writes and syncs a lot, and inside a commit it would delay all callers. So a thread with its own
//! connection does it while the writer continues, and the writer checkpoints the few pages that were added meanwhile:
//! the log restarts from its beginning only after all of it is checkpointed. A writer that has been idle for a while
//! checkpoints the whole log, so that an idle database is small and opens fast.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use rusqlite::Connection;

use crate::{DatabaseError, Result, connection, writer::Order};

/// Pages in the log from which on it is checkpointed during writes: 64 MiB. In a longer log the same page occurs more
/// often, and only its last version has to be copied.
const CHECKPOINT_PAGES: i64 = 16 * 1024;

/// Additional pages from which on a checkpoint is tried again after readers prevented the log from restarting.
const RETRY_PAGES: i64 = CHECKPOINT_PAGES / 8;

/// Pages that may remain for the writer, and how often the thread tries to reach that.
const REMAINING_PAGES: i64 = 256;
const ROUNDS: usize = 4;

/// Pages from which on an idle writer checkpoints the log: 1 MiB.
const IDLE_CHECKPOINT_PAGES: i64 = 256;

pub(crate) struct Checkpointer {
    wake: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    busy: bool,
    /// Pages that the last attempt could not checkpoint, because readers still needed the older versions.
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

    /// The writer has checkpointed the rest.
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

/// Checkpoints the pages that no reader needs in their older version, without blocking.
pub(crate) fn passive(sql: &Connection) {
    run(sql, "PRAGMA wal_checkpoint(PASSIVE)");
}

/// Checkpoints everything and truncates the log, if it is long enough and no other connection is active. Returns
/// whether it did.
pub(crate) fn checkpoint_if_idle(sql: &Connection) -> bool {
    if measure(sql).is_none_or(|log| log.pages < IDLE_CHECKPOINT_PAGES) || sql.busy_timeout(Duration::ZERO).is_err() {
        return false;
    }
    let idle_checkpoint_done = run(sql, "PRAGMA wal_checkpoint(TRUNCATE)");
    if let Err(error) = sql.busy_timeout(connection::BUSY_TIMEOUT) {
        tracing::warn!(%error, "the busy timeout of a connection could not be restored");
    }
    idle_checkpoint_done
}

/// Returns whether the whole log was checkpointed.
fn run(sql: &Connection, pragma: &str) -> bool {
    let busy = sql.prepare_cached(pragma).and_then(|mut pragma| pragma.query_row([], |row| row.get::<_, bool>(0)));
    match busy {
        Ok(busy) => !busy,
        Err(error) => {
            // Nothing is lost: the log stays, and the next attempt includes it.
            tracing::warn!(%error, "the checkpoint of the write-ahead log failed; it is tried again later");
            false
        }
    }
}

/// The length of the log. It differs from the file's length, because the file is reused.
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
