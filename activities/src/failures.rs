//! Errors of the ports as Temporal failures: the type names what went wrong, the text is safe for people.

use std::time::Duration;

use temporalio_sdk::{ApplicationFailure, activities::ActivityError};
use windlass_core::{envelope::ModelFailureFacts, ids::InstallationId};
use windlass_models::{ErrorClass, ModelError};
use windlass_store::StoreError;

/// How long a worker with the wrong store leaves a run alone.
const FOREIGN_DELAY: Duration = Duration::from_secs(5);

/// A failure that another attempt will not mend.
pub(crate) fn permanent(kind: &str, message: impl Into<String>) -> ActivityError {
    let message: String = message.into();
    ApplicationFailure::builder(Plain(message)).type_name(kind.to_owned()).non_retryable(true).build().into()
}

/// A failure that another attempt may mend.
pub(crate) fn transient(kind: &str, message: impl Into<String>) -> ActivityError {
    let message: String = message.into();
    ApplicationFailure::builder(Plain(message)).type_name(kind.to_owned()).build().into()
}

pub(crate) fn store(error: &StoreError) -> ActivityError {
    let message = format!("{}: {error}", error.code());
    if error.retryable() { transient(error.code(), message) } else { permanent(error.code(), message) }
}

/// A failure of a worker that has another installation's store: the right worker takes it later.
pub(crate) fn foreign(own: &InstallationId, found: &InstallationId) -> ActivityError {
    let message =
        format!("OPS0016: the run belongs to installation {found}, and this worker's store is installation {own}");
    ApplicationFailure::builder(Plain(message))
        .type_name("OPS0016".to_owned())
        .next_retry_delay(FOREIGN_DELAY)
        .build()
        .into()
}

/// Whether the failure says that the store lacks what it must have of a run that is its own.
pub(crate) fn lacks_the_run(error: &ActivityError) -> bool {
    let ActivityError::Application(failure) = error else { return false };
    matches!(failure.type_name(), Some("STO0001" | "agent_missing" | "blob_missing"))
}

/// `said` is what the model had said before it failed.
pub(crate) fn model(error: &ModelError, said: String) -> ActivityError {
    // A run that is cancelled takes no retry. Otherwise the worker is stopping, and the next one asks again.
    let another_attempt = error.retryable || error.class == ErrorClass::Cancelled;
    let facts = ModelFailureFacts {
        api_status: error.api_status,
        api_code: error.api_code.clone(),
        partial_text: Some(said).filter(|said| !said.is_empty()),
    };
    ApplicationFailure::builder(Plain(error.to_string()))
        .type_name(error.class.as_str().to_owned())
        .non_retryable(!another_attempt)
        .maybe_next_retry_delay(error.retry_after)
        .details(facts)
        .build()
        .into()
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Plain(String);
