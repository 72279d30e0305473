//! The write-ahead log's file: syncing it and keeping room in it.
//!
//! SQLite would sync it inside the commit, for every commit or for none, depending on a setting. Syncing it from here
//! lets the writer choose per batch, answer those who do not wait before the disk is done, and make earlier commits
//! durable without writing anything new. It is the same operation on the same file.
//!
//! A sync of a file that has grown costs about twice as much as one of a file that was written over. So the log is
//! given zeros to write over. SQLite takes them for what they are: the end of the log.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use rusqlite::Connection;

use crate::{DatabaseError, Result};

#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    /// The length of the file when it was last looked at.
    size: u64,
}

/// What a new log is given.
const INITIAL_SIZE: u64 = 256 * 1024;

/// What it is given at once, so that nobody waits long meanwhile.
const MAX_EXTENSION: u64 = 1024 * 1024;

/// Longer logs come from so many writes that each pays little for a sync; and they are written over soon.
const MAX_PREALLOCATED: u64 = 4 * 1024 * 1024;

impl Log {
    /// Opens the log of a database that somebody has open, which is what keeps the file there. SQLite holds no locks on
    /// this file, so closing it releases none.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        // Some systems sync only through a handle that could write.
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| {
            DatabaseError::unavailable("open its write-ahead log", format!("{}: {error}", path.display()))
        })?;
        Ok(Self { file, size: 0 })
    }

    /// Returns once every commit so far is on disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Whether there is little room after the first `used` bytes.
    pub(crate) fn is_nearly_full(&self, used: u64) -> bool {
        used + INITIAL_SIZE / 2 > self.size && self.size < MAX_PREALLOCATED
    }

    /// Makes room if that is needed. Nobody else may write to the log meanwhile.
    pub(crate) fn extend(&mut self, used: u64) -> io::Result<()> {
        self.size = self.file.seek(SeekFrom::End(0))?;
        while self.is_nearly_full(used) {
            let more = self.size.clamp(INITIAL_SIZE, MAX_EXTENSION);
            self.file.write_all(&vec![0; more as usize])?;
            self.size += more;
        }
        Ok(())
    }

    /// The file was cut off.
    pub(crate) fn was_truncated(&mut self) {
        self.size = 0;
    }
}

/// Where SQLite keeps the log of a database: beside the file itself, whatever links lead to it.
pub(crate) fn path_of(database: &Path) -> Result<PathBuf> {
    let database = database
        .canonicalize()
        .map_err(|error| DatabaseError::unavailable("find its file", format!("{}: {error}", database.display())))?;
    let mut path = OsString::from(database);
    path.push("-wal");
    Ok(path.into())
}

/// Bytes that a page takes in the log: itself and its header.
pub(crate) fn frame(sql: &Connection) -> Result<u64> {
    let page: i64 = sql.pragma_query_value(None, "page_size", |row| row.get(0))?;
    Ok(page.unsigned_abs() + 24)
}
