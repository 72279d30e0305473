//! Folding the write-ahead log into the database file.
//!
//! A checkpoint writes and syncs a lot; inside a commit it would make everybody wait. So a thread with a connection of
//! its own does it while the writer goes on, and the writer folds in the little that was added meanwhile: only a log
//! that is folded in completely starts again from its beginning.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread::{self, JoinHandle},
};

use rusqlite::Connection;

use crate::{DatabaseError, Result, writer::Order};

/// Pages in the log from which on it is folded in.
const LARGE: i64 = 4096;

/// Pages that make another attempt worth while when a reader kept the log from starting again.
const WORTHWHILE: i64 = LARGE / 8;

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
            .name("windlass-db-fold".to_owned())
            .spawn(move || work_off(&sql, &woken, &orders))
            .map_err(|error| DatabaseError::unavailable("start its checkpointer", error))?;
        Ok(Self { wake: Some(wake), thread: Some(thread), busy: false, left: 0 })
    }

    /// Starts a checkpoint if the log has become large.
    pub(crate) fn look(&mut self, sql: &Connection) {
        if self.busy {
            return;
        }
        let Some(log) = measure(sql) else { return };
        if log.pages >= LARGE && log.unfolded() >= self.left + WORTHWHILE {
            self.busy = self.wake.as_ref().is_some_and(|wake| wake.send(()).is_ok());
        }
    }

    /// The writer has folded in the rest.
    pub(crate) fn finished(&mut self, sql: &Connection) {
        self.busy = false;
        self.left = measure(sql).map_or(0, |log| log.unfolded());
    }

    pub(crate) fn stop(&mut self) {
        self.wake.take();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the checkpointer panicked");
        }
    }
}

fn work_off(sql: &Connection, woken: &Receiver<()>, orders: &Sender<Order>) {
    while woken.recv().is_ok() {
        fold(sql);
        if orders.send(Order::FinishCheckpoint).is_err() {
            return;
        }
    }
}

/// Folds in what no reader needs any more, without making anybody wait.
pub(crate) fn fold(sql: &Connection) {
    let folded =
        sql.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)").and_then(|mut pragma| pragma.query_row([], |_| Ok(())));
    if let Err(error) = folded {
        // Nothing is lost: the log stays and the next attempt takes it.
        tracing::warn!(%error, "the write-ahead log was not folded into the database");
    }
}

struct Log {
    pages: i64,
    folded: i64,
}

impl Log {
    fn unfolded(&self) -> i64 {
        self.pages - self.folded
    }
}

/// The size of the log; its file does not tell, because it is reused.
fn measure(sql: &Connection) -> Option<Log> {
    let mut pragma = sql.prepare_cached("PRAGMA wal_checkpoint(NOOP)").ok()?;
    pragma.query_row([], |row| Ok(Log { pages: row.get(1)?, folded: row.get(2)? })).ok()
}
