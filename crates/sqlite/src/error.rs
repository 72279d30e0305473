//! Why the database said no, and what a failure of SQLite means to its caller.

use std::path::PathBuf;

use rusqlite::{Error, ErrorCode};

use crate::damage::is_damage;

/// What a caller can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The database cannot be reached, is too busy or its disk is full.
    Unavailable,
    /// What is stored is not what was written.
    Corrupt,
    /// The call itself makes no sense.
    Invalid,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    #[error("the database could not {action}: {detail}; try again")]
    Unavailable { action: &'static str, detail: String },

    #[error("the disk is full: {detail}; free some space and try again")]
    DiskFull { detail: String },

    #[error("the disk did not take what was written: {detail}; check the disk and start this process again")]
    SyncFailed { detail: String },

    #[error("the database is closed; open it again")]
    Closed,

    #[error("stored data is damaged: {detail}; `windlass doctor --deep` lists all of it, a backup has it whole")]
    Corrupt { detail: String },

    #[error(
        "the database file is damaged: {detail}; stop what uses it, look with `windlass doctor --deep`, and restore a backup \
         with `windlass store restore FILE`"
    )]
    Damaged { detail: String },

    #[error("{} cannot be used as a database: {problem}", path.display())]
    NotADatabase { path: PathBuf, problem: String },

    #[error(
        "{} was written by a newer build: its schema is version {found} and this build knows up to {supported}; upgrade this build",
        path.display()
    )]
    NewerSchema { path: PathBuf, found: usize, supported: usize },

    #[error("the database path is not valid: {problem}")]
    UnsuitablePath { problem: String },

    #[error("the database refused a statement: {detail}; its schema was changed by hand or this build has a defect")]
    Refused { detail: String },
}

impl DatabaseError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable { .. } | Self::DiskFull { .. } | Self::SyncFailed { .. } | Self::Closed => {
                ErrorKind::Unavailable
            }
            Self::Corrupt { .. } | Self::Damaged { .. } | Self::NotADatabase { .. } => ErrorKind::Corrupt,
            Self::NewerSchema { .. } | Self::UnsuitablePath { .. } | Self::Refused { .. } => ErrorKind::Invalid,
        }
    }

    pub(crate) fn unavailable(action: &'static str, detail: impl ToString) -> Self {
        Self::Unavailable { action, detail: detail.to_string() }
    }

    /// What the others of a batch are told when SQLite gave up its transaction over one of them.
    pub(crate) fn transaction_aborted() -> Self {
        Self::unavailable("commit", "another write of the same transaction failed")
    }

    /// What a whole batch is told when its transaction fails. Whatever the reason, a job of it may be tried again.
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

/// Whether an error says that a row holds something that was never written. Other rows may be read.
pub fn is_row_error(error: &Error) -> bool {
    matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
    )
}
