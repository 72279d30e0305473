//! Damage that was found in the file.
//!
//! A process that reads a damaged page continues, because other pages may be undamaged. But its probes
//! ([`Database::probe`](crate::Database::probe)) fail until it is restarted and has checked the file again.

use std::sync::OnceLock;

use rusqlite::{Error, ErrorCode};

use crate::DatabaseError;

/// The error of a job on the database.
pub trait Failure: From<DatabaseError> + Send + 'static {
    /// The details if the error is about damage of the database file.
    fn damage(&self) -> Option<&str>;
}

impl Failure for DatabaseError {
    fn damage(&self) -> Option<&str> {
        match self {
            Self::Damaged { detail } => Some(detail),
            _ => None,
        }
    }
}

/// The first damage that was found.
#[derive(Debug, Default)]
pub(crate) struct Damage(OnceLock<String>);

impl Damage {
    pub(crate) fn note_outcome<T, E: Failure>(&self, outcome: &Result<T, E>) {
        if let Err(error) = outcome
            && let Some(detail) = error.damage()
        {
            self.note(detail);
        }
    }

    pub(crate) fn note_error(&self, error: &Error) {
        if is_damage(error) {
            self.note(&error.to_string());
        }
    }

    fn note(&self, detail: &str) {
        if self.0.set(detail.to_owned()).is_ok() {
            tracing::error!(
                detail,
                "the database file is damaged; restore a backup with `windlass store restore FILE`"
            );
        }
    }

    pub(crate) fn check(&self) -> Result<(), DatabaseError> {
        self.0.get().map_or(Ok(()), |detail| Err(DatabaseError::Damaged { detail: detail.clone() }))
    }
}

pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}
