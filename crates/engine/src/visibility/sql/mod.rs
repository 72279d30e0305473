//! The table `engine_visibility`: rows in, lists and counts out.
//!
//! Everything takes a connection and runs at once, inside whatever transaction the caller has.

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
