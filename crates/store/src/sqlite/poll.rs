//! Notices what other processes write to the same file.
//!
//! SQLite has no notifications across processes, but it keeps a number that changes with every commit of another
//! connection. One thread per store reads that number while somebody watches, and sleeps while nobody does.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension as _};

use super::columns::Uint;
use crate::{Result, StoreError, watch::Watchers};

const INTERVAL: Duration = Duration::from_millis(50);

/// The thread that looks. It ends when the registry is closed.
#[derive(Debug)]
pub(super) struct Poller {
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Poller {
    pub(super) fn start(sql: Connection, watchers: Arc<Watchers>) -> Result<Self> {
        let thread = thread::Builder::new()
            .name("windlass-store-poll".to_owned())
            .spawn(move || poll(&sql, &watchers))
            .map_err(|error| StoreError::Unavailable { action: "start its poller", detail: error.to_string() })?;
        Ok(Self { thread: Mutex::new(Some(thread)) })
    }

    /// Waits for the thread to end.
    pub(super) fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the store's poller panicked");
        }
    }
}

fn poll(sql: &Connection, watchers: &Watchers) {
    let (mut arrivals, mut version) = (0, None);
    let mut failing = false;
    while let Some(now) = watchers.next_look(arrivals, INTERVAL) {
        match look(sql, watchers, version, now != arrivals) {
            Ok(found) => (version, failing) = (Some(found), false),
            Err(error) => {
                if !failing {
                    tracing::warn!(%error, "cannot look for events of other processes");
                }
                // What was missed meanwhile is found by the first look that succeeds.
                (version, failing) = (None, true);
            }
        }
        arrivals = now;
    }
}

/// The version is read before the logs: a commit in between shows up as a new version next time.
fn look(sql: &Connection, watchers: &Watchers, known: Option<i64>, newcomers: bool) -> Result<i64> {
    let version = sql.pragma_query_value(None, "data_version", |row| row.get(0))?;
    if known != Some(version) || newcomers {
        let mut last_seq = sql.prepare_cached("SELECT last_seq FROM runs WHERE id = ?1")?;
        for run in watchers.watched() {
            if let Some(Uint(seq)) = last_seq.query_row([run.as_str()], |row| row.get(0)).optional()? {
                watchers.reached(&run, seq);
            }
        }
    }
    Ok(version)
}
