//! When what an operation says can be relied upon.

use std::sync::Arc;

use windlass_sqlite::{Ack, DatabaseError, ErrorKind, Ticket};

use super::Core;
use crate::service_error::ServiceError;

/// What came of an operation, and what it takes to keep it.
#[must_use]
pub(crate) struct Applied<T> {
    pub(crate) value: T,
    kept: Acknowledgement,
}

/// When what an operation says can be relied upon.
pub(crate) enum Acknowledgement {
    Already,
    /// With this write.
    By(Ticket<bool, DatabaseError>),
    /// Nothing changed, but what was found is still being written: whoever repeats a request must not be told that it
    /// is done before it is.
    WithOthers {
        core: Arc<Core>,
        epoch: u64,
    },
}

impl<T> Applied<T> {
    pub(crate) fn new(value: T, kept: Acknowledgement) -> Self {
        Self { value, kept }
    }

    pub(crate) fn map<U>(self, map: impl FnOnce(T) -> U) -> Applied<U> {
        Applied { value: map(self.value), kept: self.kept }
    }

    /// Waits until what came of it is kept.
    pub(crate) async fn acknowledged(self) -> Result<T, ServiceError> {
        let ticket = match self.kept {
            Acknowledgement::Already => return Ok(self.value),
            Acknowledgement::By(ticket) => ticket,
            Acknowledgement::WithOthers { core, epoch } => {
                let database = core.database.clone();
                database.apply(Ack::Durable, move |_| Ok(core.registry.epoch() == epoch))
            }
        };
        match ticket.await {
            Ok(true) => Ok(self.value),
            Ok(false) => Err(forgotten()),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// Does not wait. The write is carried out all the same.
    pub(crate) fn value(self) -> T {
        self.value
    }
}

impl<T> Applied<Result<T, ServiceError>> {
    /// For an operation that refused without anything in memory being forgotten.
    pub(crate) fn transpose(self) -> Result<Applied<T>, ServiceError> {
        self.value.map(|value| Applied { value, kept: self.kept })
    }
}

pub(crate) fn unavailable(error: &DatabaseError) -> ServiceError {
    let message = format!("the engine's database refused: {error}");
    match error.kind() {
        ErrorKind::Corrupt => ServiceError::DataLoss(message),
        ErrorKind::Unavailable | ErrorKind::Invalid => ServiceError::Unavailable(message),
    }
}

pub(crate) fn forgotten() -> ServiceError {
    ServiceError::Unavailable("an earlier write of this run was lost; try again".to_owned())
}
