//! Errors of the ports as Temporal failures: the type names what went wrong, the text is safe for people.

use temporalio_sdk::{ApplicationFailure, activities::ActivityError};
use windlass_core::envelope::ModelFailureFacts;
use windlass_models::{ErrorClass, ModelError};
use windlass_store::StoreError;

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

/// `said` is what the model had said before it failed.
pub(crate) fn model(error: &ModelError, said: String) -> ActivityError {
    // A run that is cancelled takes no retry. Otherwise the worker is stopping, and the next one asks again.
    let another_attempt = error.retryable || error.class == ErrorClass::Cancelled;
    let facts =
        ModelFailureFacts { api_status: error.api_status, partial_text: Some(said).filter(|said| !said.is_empty()) };
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
