//! What a failure of SQLite means to a caller of the store.

use rusqlite::{Error, ErrorCode};

use crate::StoreError;

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match &error {
            Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..) => Self::Corrupt { detail },
            _ => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt { detail },
                Some(
                    ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::OutOfMemory
                    | ErrorCode::ReadOnly
                    | ErrorCode::PermissionDenied
                    | ErrorCode::OperationInterrupted
                    | ErrorCode::OperationAborted
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::DiskFull
                    | ErrorCode::CannotOpen
                    | ErrorCode::FileLockingProtocolFailed
                    | ErrorCode::SchemaChanged,
                ) => Self::Unavailable { action: "use its database", detail },
                _ => Self::Refused { detail },
            },
        }
    }
}
