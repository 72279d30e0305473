//! The write-ahead log's file: syncing it.
//!
//! SQLite would sync it inside the commit, for every commit or for none, depending on a setting. Syncing it from here
//! lets the writer choose per batch, answer those who do not wait before the disk is done, and make earlier commits
//! durable without writing anything new. It is the same operation on the same file.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use crate::{DatabaseError, Result};

#[derive(Debug)]
pub(crate) struct Log {
    file: File,
}

impl Log {
    /// Opens the log of a database that somebody has open, which is what keeps the file there. SQLite holds no locks on
    /// this file, so closing it releases none.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        // Some systems sync only through a handle that could write.
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| {
            DatabaseError::unavailable("open its write-ahead log", format!("{}: {error}", path.display()))
        })?;
        Ok(Self { file })
    }

    /// Returns once every commit so far is on disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
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
