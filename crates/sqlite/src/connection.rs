//! Opens connections to the database file with the required settings.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, Error, ErrorCode, OpenFlags, config::DbConfig, ffi::SQLITE_VERSION_NUMBER};

use crate::{DatabaseError, Result, hash};

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
        keep_statements(&sql)?;
        hash::define(&sql)?;
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
    keep_statements(&sql)?;
    Ok(sql)
}

/// A statement is compiled once per connection. Without the stability guarantee SQLite looks at bound values when it plans:
/// a statement with `LIMIT ?`, or with a comparison to `?` and an `ORDER BY`, is compiled again whenever a value is bound.
fn keep_statements(sql: &Connection) -> rusqlite::Result<()> {
    sql.set_prepared_statement_cache_capacity(STATEMENTS);
    sql.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
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

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_bound_value_does_not_compile_a_statement_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.db");
        let writer = open_writer(&path).unwrap();
        writer
            .execute_batch(
                "CREATE TABLE words (text INTEGER, place INTEGER, PRIMARY KEY (text, place)) STRICT;
                 INSERT INTO words VALUES (1, 1), (1, 2), (2, 1)",
            )
            .unwrap();
        let statements = [
            ("SELECT place FROM words WHERE text = 1 ORDER BY place LIMIT ?1", [(1, 1), (2, 2), (3, 2)]),
            ("SELECT place FROM words WHERE text = ?1 AND place < 9 ORDER BY place", [(1, 2), (2, 1), (3, 0)]),
        ];
        for (connection, sql) in [("writer", &writer), ("reader", &open_reader(&path).unwrap())] {
            for (text, uses) in statements {
                let mut statement = sql.prepare(text).unwrap();
                for (value, rows) in uses {
                    assert_eq!(statement.query_map([value], |row| row.get::<_, i64>(0)).unwrap().count(), rows);
                }
                assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{connection}: {text}");
            }
        }
    }
}
