//! Fault injection for tests.

use std::io;

use rusqlite::Connection;

/// Called where a disk may fail, by the thread that writes. An error is treated like one of the disk.
pub trait Faults: Send + Sync + 'static {
    /// Before queued writes are executed, or one write on its caller's thread. `PRAGMA max_page_count` on this connection limits the size of the disk.
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
