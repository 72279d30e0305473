//! Retention and disk space.

use serde::Serialize;
use windlass_core::time::Timestamp;

/// What one sweep may delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Runs that closed before this, sessions that ended before it, and reservations older than it.
    pub before: Timestamp,
    /// So many runs and so many sessions at once.
    pub limit: u32,
}

/// What one sweep deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Swept {
    pub runs: u64,
    pub events: u64,
    pub sessions: u64,
    pub blobs: u64,
    /// Another sweep may find more.
    pub more: bool,
}

/// What compacting gave back to the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Compacted {
    pub bytes: u64,
}
