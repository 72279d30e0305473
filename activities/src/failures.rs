//! Errors of the ports as Temporal failures: the type names what went wrong, the text is safe for people.

use std::time::Duration;

use temporalio_sdk::{ApplicationFailure, activities::ActivityError};
use windlass_core::{
    envelope::{ModelFailureFacts, TokenUsage},
    ids::InstallationId,
};
use windlass_models::{ErrorClass, ModelError};
use windlass_store::StoreError;
use windlass_tools::PostFailure;

/// How long a worker with the wrong store waits before it may try a run again.
const FOREIGN_DELAY: Duration = Duration::from_secs(5);

/// A permanent failure: no retry.
pub(crate) fn permanent(kind: &str, message: impl Into<String>) -> ActivityError {
    let message: String = message.into();
    ApplicationFailure::builder(Plain(message)).type_name(kind.to_owned()).non_retryable(true).build().into()
}

/// A transient failure: a retry may succeed.
pub(crate) fn transient(kind: &str, message: impl Into<String>) -> ActivityError {
    let message: String = message.into();
    ApplicationFailure::builder(Plain(message)).type_name(kind.to_owned()).build().into()
}

pub(crate) fn store(error: &StoreError) -> ActivityError {
    let message = format!("{}: {error}", error.code());
    if error.retryable() { transient(error.code(), message) } else { permanent(error.code(), message) }
}

/// The failure on a worker with another installation's store. A later attempt reaches the right worker.
pub(crate) fn foreign(own: &InstallationId, found: &InstallationId) -> ActivityError {
    let message =
        format!("OPS0016: the run belongs to installation {found}, and this worker's store is installation {own}");
    ApplicationFailure::builder(Plain(message))
        .type_name("OPS0016".to_owned())
        .next_retry_delay(FOREIGN_DELAY)
        .build()
        .into()
}

/// Whether the failure means that the store has no data of a run that should be in it.
pub(crate) fn lacks_the_run(error: &ActivityError) -> bool {
    let ActivityError::Application(failure) = error else { return false };
    matches!(failure.type_name(), Some("STO0001" | "agent_missing" | "blob_missing"))
}

/// `partial_text` is the model's text before it failed, `usage` what all attempts so far cost.
pub(crate) fn model(error: &ModelError, partial_text: String, usage: TokenUsage) -> ActivityError {
    // A cancelled run is not retried. Otherwise the worker is shutting down, and the next worker calls the model again.
    let another_attempt = error.retryable || error.class == ErrorClass::Cancelled;
    let facts = ModelFailureFacts {
        api_status: error.api_status,
        api_code: error.api_code.clone(),
        partial_text: Some(partial_text).filter(|text| !text.is_empty()),
        usage: Some(usage).filter(|usage| *usage != TokenUsage::default()),
    };
    ApplicationFailure::builder(Plain(error.to_string()))
        .type_name(error.class.as_str().to_owned())
        .non_retryable(!another_attempt)
        // A delay of zero means no retry at all to the server.
        .maybe_next_retry_delay(error.retry_after.filter(|delay| !delay.is_zero()))
        .details(facts)
        .build()
        .into()
}

/// A notification that its receiver did not accept.
pub(crate) fn push(failure: &PostFailure) -> ActivityError {
    ApplicationFailure::builder(Plain(failure.message.clone()))
        .type_name("push_failed".to_owned())
        .non_retryable(!failure.retryable)
        .maybe_next_retry_delay(failure.retry_after.filter(|delay| !delay.is_zero()))
        .build()
        .into()
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Plain(String);
