//! Backup of a database that is in use, and restore.
//!
//! A backup is one snapshot, written by SQLite itself (`VACUUM INTO`): a compact single file without a log. It gets its
//! final name only after it was read back, checked and synced. A restore replaces a database with a backup and keeps
//! the replaced files.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{FlockOperation, fcntl_lock};

use crate::{
    DatabaseError, Progress,
    check::{self, beside, sync_directory},
    connection,
    examine::integrity_problems,
    migrate,
};

/// Suffix of the new database while a restore prepares it.
pub(crate) const RESTORING: &str = "-restoring";

/// SQLite's steps between two progress updates.
const STEPS: i32 = 10_000;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    #[error("STO0019: {} already exists; give another name, or use --force to replace it", .0.display())]
    Exists(PathBuf),

    #[error("STO0020: the backup was not written to {}: {reason}", path.display())]
    NotWritten { path: PathBuf, reason: io::Error },

    #[error("STO0020: no backup was made: {0}")]
    Source(DatabaseError),

    #[error("STO0020: the copy is damaged: {0}; check the disk that it is on, and try again")]
    NotWhole(String),

    #[error("STO0020: stopped; no backup was made")]
    Stopped,

    #[error("STO0021: {} cannot be restored: {problem}; nothing was changed", backup.display())]
    Unusable { backup: PathBuf, problem: String },

    #[error("STO0022: {} is in use by another process; stop everything that uses this data directory first", .0.display())]
    InUse(PathBuf),

    #[error("STO0021: the restore was not finished: {}: {reason}; run it again", path.display())]
    NotRestored { path: PathBuf, reason: io::Error },
}

impl From<DatabaseError> for BackupError {
    fn from(error: DatabaseError) -> Self {
        Self::Source(error)
    }
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    pub bytes: u64,
    /// The new path of the replaced database.
    pub replaced: Option<PathBuf>,
}

/// Writes a backup of the database, which may be in use, to `target`, and returns its size. `progress` counts bytes.
/// Blocks.
pub fn backup(database: &Path, target: &Path, force: bool, progress: &Arc<Progress>) -> Result<u64, BackupError> {
    if !force && target.symlink_metadata().is_ok() {
        return Err(BackupError::Exists(target.to_owned()));
    }
    check::reject_non_database(database)?;
    let staged = beside(target, &format!("-partial-{}", std::process::id()));
    let written = write(database, &staged, progress).and_then(|bytes| {
        publish(&staged, target, force)?;
        Ok(bytes)
    });
    // Only this process uses this name.
    let _ = fs::remove_file(&staged);
    written
}

fn write(database: &Path, staged: &Path, progress: &Arc<Progress>) -> Result<u64, BackupError> {
    let failed = |reason| BackupError::NotWritten { path: staged.to_owned(), reason };
    // The backup contains conversations and key hashes, so only its owner may read it from the start.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(staged).map_err(failed)?;
    let mut sql = connection::open_reader(database)?;
    check::checkpoint_on_close(&sql, false)?;
    let (watched, size) = (Arc::clone(progress), staged.to_owned());
    let looked = move || {
        watched.set(fs::metadata(&size).map_or(0, |file| file.len()));
        watched.is_stopped()
    };
    sql.progress_handler(STEPS, Some(looked)).map_err(DatabaseError::from)?;
    let target = staged.to_str().ok_or_else(|| failed(io::Error::other("the name is not UTF-8; give another one")))?;
    match sql.execute("VACUUM INTO ?1", [target]) {
        Ok(_) => {}
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            return Err(BackupError::Stopped);
        }
        Err(error) => return Err(DatabaseError::from(error).into()),
    }
    file.sync_all().map_err(failed)?;
    let problems = verify(staged).map_err(|error| BackupError::NotWhole(error.to_string()))?;
    if let Some(problem) = problems.first() {
        return Err(BackupError::NotWhole(problem.clone()));
    }
    fs::metadata(staged).map(|file| file.len()).map_err(failed)
}

/// Moves the checked copy to its final name.
fn publish(staged: &Path, target: &Path, force: bool) -> Result<(), BackupError> {
    let failed = |reason| BackupError::NotWritten { path: target.to_owned(), reason };
    if force {
        fs::rename(staged, target).map_err(failed)?;
    } else {
        match fs::hard_link(staged, target) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(BackupError::Exists(target.to_owned()));
            }
            // The file system does not support hard links.
            Err(_) => fs::rename(staged, target).map_err(failed)?,
        }
    }
    sync_directory(target).map_err(failed)
}

/// The problems of a file that is not in use.
fn verify(path: &Path) -> crate::Result<Vec<String>> {
    let sql = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    integrity_problems(&sql)
}

/// Replaces a database with a backup and keeps the replaced files. `known` are the components of this build and their
/// versions; a backup of a newer build is rejected. Blocks.
pub fn restore(
    backup: &Path,
    database: &Path,
    known: &[(&str, usize)],
    progress: &Progress,
) -> Result<Restored, BackupError> {
    let unusable = |problem: String| BackupError::Unusable { backup: backup.to_owned(), problem };
    let _exclusive = lock(database)?;
    check::reject_non_database(backup).map_err(|error| unusable(error.to_string()))?;
    let staged = beside(database, RESTORING);
    let failed = |reason| BackupError::NotRestored { path: staged.clone(), reason };
    let copied = copy(backup, &staged, progress).map_err(failed);
    let checked = copied.and_then(|bytes| match check_backup(&staged, known) {
        Ok(()) => Ok(bytes),
        Err(problem) => Err(unusable(problem)),
    });
    let bytes = match checked {
        Ok(bytes) => bytes,
        Err(error) => {
            let _ = fs::remove_file(&staged);
            return Err(error);
        }
    };
    let replaced = move_aside(database).map_err(failed)?;
    fs::rename(&staged, database).and_then(|()| sync_directory(database)).map_err(failed)?;
    Ok(Restored { bytes, replaced })
}

/// Checks that no process has the database open, even if it is damaged: every open connection holds SQLite's lock on a
/// part of the file. The lock is held until the returned file is dropped.
fn lock(database: &Path) -> Result<Option<File>, BackupError> {
    let failed = |reason| BackupError::NotRestored { path: database.to_owned(), reason };
    match OpenOptions::new().read(true).write(true).open(database) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
        Ok(file) => match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => Err(BackupError::InUse(database.to_owned())),
            Err(error) => Err(failed(error.into())),
        },
    }
}

fn copy(from: &Path, to: &Path, progress: &Progress) -> io::Result<u64> {
    let mut source = File::open(from)?;
    // A file that an interrupted restore left is overwritten.
    let mut target = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    let bytes = io::copy(&mut source, &mut target)?;
    progress.advance(bytes);
    target.sync_all()?;
    Ok(bytes)
}

/// Whether a file is an undamaged database of this build or an older one.
fn check_backup(path: &Path, known: &[(&str, usize)]) -> Result<(), String> {
    if let Some(problem) = verify(path).map_err(|error| error.to_string())?.into_iter().next() {
        return Err(format!("it is damaged: {problem}"));
    }
    let sql = connection::open_reader(path).map_err(|error| error.to_string())?;
    let versions = migrate::versions(&sql).map_err(|_| "it is not a Windlass database".to_owned())?;
    for (component, version) in &versions {
        let newer = known.iter().any(|(name, most)| name == component && version > most);
        if newer {
            return Err(format!("its {component} is version {version}, of a newer build; upgrade this build"));
        }
    }
    if known.iter().any(|(name, _)| versions.iter().any(|(component, _)| component == name)) {
        return Ok(());
    }
    Err("it is not a Windlass database".to_owned())
}

/// Renames the database and its log. The database goes first: a log alone is rejected on open, but a database without
/// its log would be accepted with commits missing.
fn move_aside(database: &Path) -> io::Result<Option<PathBuf>> {
    if database.symlink_metadata().is_err() && !beside(database, "-wal").exists() {
        return Ok(None);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let names = (0..).map(|n| if n == 0 { format!("-replaced-{now}") } else { format!("-replaced-{now}-{n}") });
    let mut names = names.map(|name| beside(database, &name));
    let aside = names.find(|name| name.symlink_metadata().is_err()).unwrap_or_else(|| beside(database, "-replaced"));
    for suffix in ["", "-wal", "-shm"] {
        match fs::rename(beside(database, suffix), beside(&aside, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    sync_directory(database)?;
    Ok(Some(aside))
}
