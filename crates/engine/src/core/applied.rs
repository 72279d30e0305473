//! The result of an operation, and when it may be acknowledged.

use std::sync::Arc;

use windlass_sqlite::{Ack, DatabaseError, ErrorKind, Ticket};

use super::Core;
use crate::service_error::ServiceError;

/// The result of an operation that was applied in memory. It must not be sent to a client before
/// [`Applied::acknowledged`].
#[must_use]
pub(crate) struct Applied<T> {
    pub(crate) value: T,
    kept: Acknowledgement,
}

/// What must be written before the result may be sent.
pub(crate) enum Acknowledgement {
    Already,
    /// This write.
    By(Ticket<bool, DatabaseError>),
    /// The operation changed nothing, but it may have read changes that are still being written. A repeated request
    /// must not be acknowledged before the first one is durable.
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

    /// Waits until the write is acknowledged by the database.
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

    /// Returns the result without waiting. The write is executed all the same.
    pub(crate) fn value(self) -> T {
        self.value
    }
}

impl<T> Applied<Result<T, ServiceError>> {
    /// For an operation that failed and left the run in memory unchanged.
    pub(crate) fn transpose(self) -> Result<Applied<T>, ServiceError> {
        self.value.map(|value| Applied { value, kept: self.kept })
    }
}

pub(crate) fn unavailable(error: &DatabaseError) -> ServiceError {
    let message = format!("the engine's database failed: {error}");
    match error.kind() {
        ErrorKind::Corrupt => ServiceError::DataLoss(message),
        ErrorKind::Unavailable | ErrorKind::Invalid => ServiceError::Unavailable(message),
    }
}

pub(crate) fn forgotten() -> ServiceError {
    ServiceError::Unavailable("an earlier write of this run failed; try again".to_owned())
}
