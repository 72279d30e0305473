//! Counters since the database was opened.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Committed transactions.
    pub commits: u64,
    /// Syncs of the log, without those of checkpoints.
    pub syncs: u64,
    /// Writes in those transactions.
    pub writes: u64,
    /// The size of the database file.
    pub database_bytes: u64,
    /// The size of the write-ahead log, which is overwritten from its beginning after a checkpoint.
    pub log_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) writes: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, by: usize) {
        counter.fetch_add(by as u64, Ordering::Relaxed);
    }
}
