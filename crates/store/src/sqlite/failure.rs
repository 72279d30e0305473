//! What a failure of the database means to a caller of the store.

use windlass_sqlite::DatabaseError;

use crate::StoreError;

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Corrupt { detail } => Self::Corrupt { detail },
            DatabaseError::NewerSchema { path, found, supported } => {
                Self::NewerSchema { database: path.display().to_string(), found, supported }
            }
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
