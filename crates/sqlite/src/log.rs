//! The file of the write-ahead log: syncs and preallocation.
//!
//! SQLite would sync the log inside the commit, for every commit or for none, depending on a setting. Syncing it here
//! lets the writer choose per batch, acknowledge relaxed writes before the sync, and make earlier commits durable
//! without a new one. It is the same operation on the same file.
//!
//! A sync of a file that has grown costs about twice as much as one of a file that was overwritten. So the log is
//! preallocated with zeros, which SQLite treats as the end of the log.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::Connection;

use crate::{DatabaseError, Result};

#[derive(Debug)]
pub(crate) struct Log {
    file: Arc<File>,
    /// The file's length when it was last read.
    size: u64,
}

/// Preallocation of a new log.
const INITIAL_SIZE: u64 = 256 * 1024;

/// Preallocation in one step, limited so that callers do not wait long.
const MAX_EXTENSION: u64 = 1024 * 1024;

/// No preallocation beyond this: a longer log comes from so many writes that each pays little for a sync, and it is
/// overwritten soon.
const MAX_PREALLOCATED: u64 = 4 * 1024 * 1024;

impl Log {
    /// Opens the log of an open database; without one, the file may not exist. SQLite holds no locks on this file, so
    /// closing it releases none.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        // Some systems sync only through a writable handle.
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| {
            DatabaseError::unavailable("open its write-ahead log", format!("{}: {error}", path.display()))
        })?;
        Ok(Self { file: Arc::new(file), size: 0 })
    }

    /// The file, to be synced while the log grows: a sync covers every commit before it.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Whether little space is left after the first `used` bytes.
    pub(crate) fn is_nearly_full(&self, used: u64) -> bool {
        used + INITIAL_SIZE / 2 > self.size && self.size < MAX_PREALLOCATED
    }

    /// Preallocates if necessary. No other connection may write to the log meanwhile.
    pub(crate) fn extend(&mut self, used: u64) -> io::Result<()> {
        let mut file = &*self.file;
        self.size = file.seek(SeekFrom::End(0))?;
        while self.is_nearly_full(used) {
            let more = self.size.clamp(INITIAL_SIZE, MAX_EXTENSION);
            file.write_all(&vec![0; more as usize])?;
            self.size += more;
        }
        Ok(())
    }

    /// The file was truncated.
    pub(crate) fn was_truncated(&mut self) {
        self.size = 0;
    }
}

/// The path of a database's log: beside the file itself, after symbolic links are resolved.
pub(crate) fn path_of(database: &Path) -> Result<PathBuf> {
    let database = database
        .canonicalize()
        .map_err(|error| DatabaseError::unavailable("find its file", format!("{}: {error}", database.display())))?;
    let mut path = OsString::from(database);
    path.push("-wal");
    Ok(path.into())
}

/// Bytes of a page in the log, with its header.
pub(crate) fn frame(sql: &Connection) -> Result<u64> {
    let page: i64 = sql.pragma_query_value(None, "page_size", |row| row.get(0))?;
    Ok(page.unsigned_abs() + 24)
}
