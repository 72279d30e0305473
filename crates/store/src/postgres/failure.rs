//! What a failure of Postgres means to a caller of the store.

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::StoreError;

/// What may be different when the same call comes again: another transaction wrote at the same time, the server has too much to
/// do, it stops, or another one takes over from it.
const PASSING: [SqlState; 8] = [
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::UNIQUE_VIOLATION,
    SqlState::FOREIGN_KEY_VIOLATION,
    SqlState::LOCK_NOT_AVAILABLE,
    SqlState::QUERY_CANCELED,
    SqlState::READ_ONLY_SQL_TRANSACTION,
    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
];

/// Classes of conditions that pass: connections, resources, an operator at work, the system.
const PASSING_CLASSES: [&str; 4] = ["08", "53", "57", "58"];

/// Wrong password, no such user or database.
const WRONG_URL_CLASSES: [&str; 2] = ["28", "3D"];

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(refusal) = error.as_db_error() else {
            return Self::Unavailable { action: "reach Postgres", detail: with_source(&error) };
        };
        let (state, detail) = (refusal.code(), format!("{} ({})", refusal.message(), refusal.code().code()));
        let class = state.code().get(..2).unwrap_or_default();
        if PASSING.contains(state) || PASSING_CLASSES.contains(&class) {
            return Self::Unavailable { action: "have Postgres do it", detail };
        }
        if WRONG_URL_CLASSES.contains(&class) {
            return Self::InvalidArgument { argument: "the database URL", problem: detail };
        }
        match *state {
            SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => Self::Corrupt { detail },
            _ => Self::Refused { detail },
        }
    }
}

impl From<PoolError> for StoreError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => error.into(),
            PoolError::Closed => Self::Unavailable { action: "go on", detail: "it is closed".to_owned() },
            error => Self::Unavailable { action: "get a connection", detail: error.to_string() },
        }
    }
}

/// The URL itself may hold a password and is not repeated.
pub(super) fn unusable_url(error: tokio_postgres::Error) -> StoreError {
    StoreError::InvalidArgument { argument: "the database URL", problem: with_source(&error) }
}

/// A value that no version of this program has written.
pub(super) fn damaged(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt { detail: error.to_string() }
}

fn with_source(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
