//! Errors of the database, and how SQLite's errors map to them.

use std::path::PathBuf;

use rusqlite::{Error, ErrorCode};

use crate::damage::is_damage;

/// The kinds of errors that callers distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The database cannot be reached, is too busy or its disk is full.
    Unavailable,
    /// Stored data is damaged.
    Corrupt,
    /// The call itself is invalid.
    Invalid,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    #[error("the database could not {action}: {detail}; try again")]
    Unavailable { action: &'static str, detail: String },

    #[error("the disk is full: {detail}; free some space and try again")]
    DiskFull { detail: String },

    #[error("the disk failed to sync: {detail}; check the disk and restart this process")]
    SyncFailed { detail: String },

    #[error("the database is closed; open it again")]
    Closed,

    #[error(
        "stored data is damaged: {detail}; list all damage with `windlass doctor --deep`, and restore a backup if necessary"
    )]
    Corrupt { detail: String },

    #[error(
        "the database file is damaged: {detail}; stop all processes that use it, check it with `windlass doctor --deep`, and restore a backup \
         with `windlass store restore FILE`"
    )]
    Damaged { detail: String },

    #[error("{} cannot be used as a database: {problem}", path.display())]
    NotADatabase { path: PathBuf, problem: String },

    #[error(
        "{} was written by a newer build: its schema version is {found}, and this build supports up to {supported}; upgrade this build",
        path.display()
    )]
    NewerSchema { path: PathBuf, found: usize, supported: usize },

    #[error(
        "{} is used by another process, and its tables can only be upgraded by one that is alone; stop all processes that \
         use it, then start again",
        path.display()
    )]
    InUse { path: PathBuf },

    #[error("the database path is not valid: {problem}")]
    UnsuitablePath { problem: String },

    #[error(
        "the database rejected a statement: {detail}; either its schema was changed by hand or this build has a bug"
    )]
    Refused { detail: String },
}

impl DatabaseError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable { .. } | Self::DiskFull { .. } | Self::SyncFailed { .. } | Self::Closed => {
                ErrorKind::Unavailable
            }
            Self::Corrupt { .. } | Self::Damaged { .. } | Self::NotADatabase { .. } => ErrorKind::Corrupt,
            Self::NewerSchema { .. } | Self::InUse { .. } | Self::UnsuitablePath { .. } | Self::Refused { .. } => {
                ErrorKind::Invalid
            }
        }
    }

    pub(crate) fn unavailable(action: &'static str, detail: impl ToString) -> Self {
        Self::Unavailable { action, detail: detail.to_string() }
    }

    /// The error for the other writes of a batch when SQLite aborted its transaction because of one of them.
    pub(crate) fn transaction_aborted() -> Self {
        Self::unavailable("commit", "another write of the same transaction failed")
    }

    /// The error for all writes of a batch when its transaction fails. They may be retried.
    pub(crate) fn batch_failed(error: &Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull { detail: error.to_string() },
            _ => Self::unavailable("commit", error),
        }
    }
}

impl From<Error> for DatabaseError {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match &error {
            error if is_row_error(error) => Self::Corrupt { detail },
            _ => match error.sqlite_error_code() {
                _ if is_damage(&error) => Self::Damaged { detail },
                Some(ErrorCode::DiskFull) => Self::DiskFull { detail },
                Some(
                    ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::OutOfMemory
                    | ErrorCode::ReadOnly
                    | ErrorCode::PermissionDenied
                    | ErrorCode::OperationInterrupted
                    | ErrorCode::OperationAborted
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::CannotOpen
                    | ErrorCode::FileLockingProtocolFailed
                    | ErrorCode::SchemaChanged,
                ) => Self::Unavailable { action: "use its file", detail },
                _ => Self::Refused { detail },
            },
        }
    }
}

/// Whether an error is about the contents of a row. Other rows may be readable.
pub fn is_row_error(error: &Error) -> bool {
    matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
    )
}
