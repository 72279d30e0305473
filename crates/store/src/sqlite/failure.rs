//! What a failure of the database means to a caller of the store.

use windlass_sqlite::{DatabaseError, Failure};

use crate::StoreError;

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Corrupt { detail } => Self::Corrupt { detail },
            DatabaseError::Damaged { detail } => Self::Damaged { detail },
            DatabaseError::NotADatabase { path, problem } => {
                Self::NotADatabase { path: path.display().to_string(), problem }
            }
            DatabaseError::NewerSchema { path, found, supported } => {
                Self::NewerSchema { database: path.display().to_string(), found, supported }
            }
            DatabaseError::InUse { path } => Self::InUse { database: path.display().to_string() },
            DatabaseError::UnsuitablePath { problem } => {
                Self::InvalidArgument { argument: "the database path", problem }
            }
            DatabaseError::Refused { detail } => Self::Refused { detail },
            DatabaseError::Unavailable { action, detail } => Self::Unavailable { action, detail },
            DatabaseError::DiskFull { detail } => Self::Unavailable { action: "write", detail },
            DatabaseError::SyncFailed { detail } => Self::Unavailable { action: "sync to disk", detail },
            DatabaseError::Closed => Self::Unavailable { action: "go on", detail: "it is closed".to_owned() },
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        DatabaseError::from(error).into()
    }
}

impl Failure for StoreError {
    fn damage(&self) -> Option<&str> {
        match self {
            Self::Damaged { detail } => Some(detail),
            _ => None,
        }
    }
}
