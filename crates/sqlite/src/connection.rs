//! Opens connections to the database file with the required settings.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, Error, ErrorCode, OpenFlags, ffi::SQLITE_VERSION_NUMBER};

use crate::{DatabaseError, Result};

// Earlier versions could corrupt a database whose write-ahead log was reset while two connections wrote.
const _: () = assert!(SQLITE_VERSION_NUMBER >= 3_051_003, "SQLite 3.51.3 or later is required");

/// How long a connection waits for another process to finish its write.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Prepared statements cached per connection; more than all components use.
const STATEMENTS: usize = 256;

/// Page cache of the writer, in KiB.
const WRITER_CACHE: i64 = 16 * 1024;

/// Length to which the log's file is truncated after it has grown, in bytes.
const LOG_KEPT: i64 = 128 * 1024 * 1024;

/// A connection that may write. It neither syncs commits nor checkpoints: `writer` and `checkpoint` do.
pub(crate) fn open_writer(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags).and_then(|sql| {
        sql.busy_timeout(BUSY_TIMEOUT)?;
        sql.set_prepared_statement_cache_capacity(STATEMENTS);
        // Only a file that is created with this setting can release free pages step by step; on others it has no
        // effect.
        sql.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        let mode = enable_wal(&sql)?;
        // In this mode checkpoints and the log's header are still synced, so that no crash can damage the file.
        sql.pragma_update(None, "synchronous", "NORMAL")?;
        sql.pragma_update(None, "wal_autocheckpoint", 0)?;
        sql.pragma_update(None, "journal_size_limit", LOG_KEPT)?;
        sql.pragma_update(None, "cache_size", -WRITER_CACHE)?;
        sql.pragma_update(None, "foreign_keys", true)?;
        Ok((sql, mode))
    });
    match opened {
        Ok((sql, mode)) if mode == "wal" => Ok(sql),
        Ok((_, mode)) => Err(DatabaseError::UnsuitablePath {
            problem: format!(
                "its file system allows only journal mode {mode:?}; use a local disk, which allows \"wal\""
            ),
        }),
        Err(error) => Err(open_error(path, error)),
    }
}

/// The error for a file that cannot be opened or written.
pub(crate) fn open_error(path: &Path, error: Error) -> DatabaseError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => DatabaseError::NotADatabase {
            path: path.to_owned(),
            problem:
                "this is not a SQLite database; move the file away, and restore a backup with `windlass store restore \
                      FILE` if a database was here"
                    .to_owned(),
        },
        Some(ErrorCode::ReadOnly) => DatabaseError::UnsuitablePath {
            problem: format!(
                "{} cannot be written ({error}); check the permissions of the file and its directory. If they are right, \
                 its header is damaged: restore a backup with `windlass store restore FILE`",
                path.display()
            ),
        },
        _ => error.into(),
    }
}

pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sql = Connection::open_with_flags(path, flags)?;
    sql.busy_timeout(BUSY_TIMEOUT)?;
    sql.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(sql)
}

/// The switch to WAL fails at once, without the busy timeout, while another process opens the same new file. Returns
/// the file's journal mode.
fn enable_wal(sql: &Connection) -> rusqlite::Result<String> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match sql.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            enabled => return enabled,
        }
    }
}
