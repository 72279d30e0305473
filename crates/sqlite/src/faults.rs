//! A disk that fails when a test wants it to.

use std::io;

use rusqlite::Connection;

/// Asked by the writer thread at the points where a disk fails. An error is taken for the disk's own.
pub trait Faults: Send + Sync + 'static {
    /// Before a batch begins. `PRAGMA max_page_count` on this connection makes the disk as small as a test likes.
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
