//! Checks of a database file before it is used.
//!
//! SQLite opens nearly everything: it treats an empty file as a new database, discards a log without its database or
//! with an unknown header, and notices a damaged page only when it reads it. A server on such a file would seem healthy
//! until a write reaches the damage. So the file is checked first: its type, its header, its log, and its pages for as
//! long as `QUICK_CHECK_TIME` allows. The reasons and the figures are in `docs/adr/0028-damaged-databases.md`.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, config::DbConfig};

use crate::{DatabaseError, Result, connection, log, private};

/// Time limit of the page check when a file is opened. A small database takes a few milliseconds.
const QUICK_CHECK_TIME: Duration = Duration::from_millis(300);

/// SQLite's steps between two checks of the time.
const STEPS: i32 = 1000;

/// Length of the log's header.
const LOG_HEADER: usize = 32;

/// Creates a new database, or rejects a file that is not a database.
pub(crate) fn prepare(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path),
        _ => reject_non_database(path),
    }
}

/// Rejects a file that is not a database. The file is not opened here: closing it would release the locks that SQLite
/// holds for other connections of this process. SQLite itself checks the header.
pub(crate) fn reject_non_database(path: &Path) -> Result<()> {
    let found = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if found.is_dir() {
        let problem = format!("{} is a directory; give the path of a file, or move the directory away", path.display());
        return Err(DatabaseError::UnsuitablePath { problem });
    }
    if found.len() == 0 {
        return Err(unusable(
            path,
            "the file is empty, so its data is lost; restore a backup with `windlass store restore FILE`, or \
             remove the file to start with a new database",
        ));
    }
    check_log(path)
}

/// Creates the database under a temporary name first. So an empty file is never one that was just created.
fn make(path: &Path) -> Result<()> {
    let log = beside(path, "-wal");
    // In this order: another process may have made the file meanwhile, and its log after that.
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) && !path.exists() {
        return Err(unusable(
            path,
            format!(
                "the file is missing, but its write-ahead log {} exists; put the file back, restore a backup with \
                 `windlass store restore FILE`, or remove the log to start with a new database",
                log.display()
            ),
        ));
    }
    if beside(path, crate::backup::RESTORING).exists() {
        return Err(unusable(
            path,
            "a restore was interrupted; run `windlass store restore FILE` again, with the same backup",
        ));
    }
    static MADE: AtomicU64 = AtomicU64::new(0);
    let staged = beside(path, &format!("-new-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed)));
    // SQLite creates the files beside a database with the database's mode.
    private::open_options().write(true).create_new(true).open(&staged).map_err(|error| unreadable(path, &error))?;
    let made = connection::open_writer(&staged).and_then(|sql| sql.close().map_err(|(_, error)| error.into()));
    if made.is_ok() {
        match fs::hard_link(&staged, path) {
            // Another process may have created it meanwhile.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                // The file system does not support hard links: SQLite creates the file at its final name.
                tracing::debug!(%error, "a new database could not be linked to its final name");
            }
            _ => {}
        }
    }
    for name in ["", "-wal", "-shm"] {
        // Only this process uses this name.
        let _ = fs::remove_file(beside(&staged, name));
    }
    made?;
    sync_directory(path).map_err(|error| unreadable(path, &error))
}

/// Checks the log's header. The log contains acknowledged commits, and SQLite treats a log with a damaged header as
/// empty.
fn check_log(path: &Path) -> Result<()> {
    const ATTEMPTS: usize = 3;
    let log = log::path_of(path)?;
    for attempt in 1..=ATTEMPTS {
        let mut header = Vec::new();
        match File::open(&log).and_then(|file| file.take(LOG_HEADER as u64).read_to_end(&mut header)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unreadable(&log, &error)),
            // A killed process may have left the log before it wrote anything.
            Ok(_) if header.len() < LOG_HEADER || header.iter().all(|byte| *byte == 0) || is_log_header(&header) => {
                return Ok(());
            }
            // Another process may be writing the header.
            Ok(_) if attempt < ATTEMPTS => thread::sleep(Duration::from_millis(10)),
            Ok(_) => {}
        }
    }
    Err(unusable(
        &log,
        "this is not a write-ahead log, or its header is damaged, so the last commits cannot be read; restore a backup with \
         `windlass store restore FILE`, or remove the log to continue without them",
    ))
}

/// Magic number, version, page size, sequence, two salts, and a checksum of these in the byte order of the magic
/// number.
fn is_log_header(header: &[u8]) -> bool {
    let word = |at: usize| <[u8; 4]>::try_from(&header[at..at + 4]).unwrap_or_default();
    let magic = u32::from_be_bytes(word(0));
    if magic & !1 != 0x377f_0682 || u32::from_be_bytes(word(4)) != 3_007_000 {
        return false;
    }
    let read = if magic & 1 == 1 { u32::from_be_bytes } else { u32::from_le_bytes };
    let (mut one, mut two) = (0_u32, 0_u32);
    for at in (0..24).step_by(8) {
        one = one.wrapping_add(read(word(at))).wrapping_add(two);
        two = two.wrapping_add(read(word(at + 4))).wrapping_add(one);
    }
    [one, two] == [24, 28].map(|at| u32::from_be_bytes(word(at)))
}

/// Checks the pages of an open database, including those in the log. A log that belongs to another file is found here,
/// so no checkpoint may happen before, not even when the connection is closed.
pub(crate) fn quick_check(sql: &mut Connection, path: &Path) -> Result<()> {
    check_writable(sql, path)?;
    let until = Instant::now() + QUICK_CHECK_TIME;
    sql.progress_handler(STEPS, Some(move || Instant::now() >= until))?;
    let found = sql.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    sql.progress_handler(0, None::<fn() -> bool>)?;
    match found {
        Ok(verdict) if verdict == "ok" => Ok(()),
        Ok(problem) => Err(DatabaseError::Damaged { detail: format!("{}: {}", path.display(), one_line(&problem)) }),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            tracing::info!(
                "the database is large and was checked only in part; `windlass doctor --deep` checks all of it"
            );
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// The header can make a file read-only whatever its permissions are.
fn check_writable(sql: &Connection, path: &Path) -> Result<()> {
    sql.execute_batch("BEGIN IMMEDIATE; ROLLBACK").map_err(|error| connection::open_error(path, error))
}

/// Sets whether SQLite checkpoints the log when the last connection is closed.
pub(crate) fn checkpoint_on_close(sql: &Connection, enabled: bool) -> Result<()> {
    Ok(sql.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !enabled).map(drop)?)
}

/// The path with a suffix.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Makes a new directory entry durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// SQLite's reports of damage may have several lines.
pub(crate) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

fn unusable(path: &Path, problem: impl Into<String>) -> DatabaseError {
    DatabaseError::NotADatabase { path: path.to_owned(), problem: problem.into() }
}

fn unreadable(path: &Path, error: &io::Error) -> DatabaseError {
    DatabaseError::unavailable("read its file", format!("{}: {error}", path.display()))
}
