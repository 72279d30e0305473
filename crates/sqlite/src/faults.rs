//! Fault injection for tests.

use std::io;

use rusqlite::Connection;

/// Called by the writer thread at the points where a disk may fail. An error is treated like one of the disk.
pub trait Faults: Send + Sync + 'static {
    /// Before a batch begins. `PRAGMA max_page_count` on this connection limits the size of the disk.
    fn before_batch(&self, _sql: &Connection) -> rusqlite::Result<()> {
        Ok(())
    }

    /// Before a batch is committed. An error rolls it back.
    fn before_commit(&self) -> rusqlite::Result<()> {
        Ok(())
    }

    /// Before the log is synced.
    fn before_sync(&self) -> io::Result<()> {
        Ok(())
    }
}
