//! The table `engine_visibility`.
//!
//! All functions take a connection and run inside the caller's transaction.

mod count;
mod list;
mod row;

pub(crate) use self::{
    count::{Count, count},
    list::{Page, list},
    row::{VisibilityRow, delete, put},
};
use crate::ServiceError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Refused(#[from] ServiceError),
    #[error("the list of runs could not be read: {0}")]
    Database(#[from] rusqlite::Error),
}
