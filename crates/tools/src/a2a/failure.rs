//! What went wrong with a peer, in words for the model. Addresses and credentials stay out of them.

use std::time::Duration;

use reqwest::{
    StatusCode,
    header::{HeaderMap, RETRY_AFTER},
};
use windlass_core::envelope::{RetryHint, RetryReason, ToolErrorKind};

use crate::ToolFailure;

/// What a request may have done at the peer if its response is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    /// The peer may have accepted a message.
    Message,
}

/// A failed request, and when the peer wants to be asked again.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RequestFailure {
    pub(super) failure: ToolFailure,
    pub(super) retry_after: Option<Duration>,
}

impl From<ToolFailure> for RequestFailure {
    fn from(failure: ToolFailure) -> Self {
        Self { failure, retry_after: None }
    }
}

impl From<RequestFailure> for ToolFailure {
    fn from(failed: RequestFailure) -> Self {
        failed.failure
    }
}

pub(super) fn failed(message: impl Into<String>) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::ToolFailed, message)
}

pub(super) fn cancelled(rest: &str) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::Cancelled, format!("the call was cancelled; {rest}"))
}

pub(super) fn credentials_stay(interface: &str, card: &str) -> ToolFailure {
    let message = format!(
        "the agent card of {card} names an interface at {interface}, and the tool's headers are only sent to the origin \
         of the card; set agentCardUrl to a card on the interface's origin, or remove the headers and oauth"
    );
    ToolFailure::new(ToolErrorKind::PolicyDenied, message)
}

pub(super) fn unreadable(what: &str) -> ToolFailure {
    failed(format!("the peer's {what} cannot be read as A2A; check that agentCardUrl leads to an A2A agent"))
}

pub(super) fn timed_out(effect: Effect) -> ToolFailure {
    match effect {
        Effect::None => {
            passing(ToolErrorKind::Timeout, RetryReason::Timeout, "the peer took too long to answer".to_owned(), None)
        }
        Effect::Message => outcome_unknown("the peer took too long to answer"),
    }
}

/// A failure below HTTP.
pub(super) fn of_transport(error: &reqwest::Error, effect: Effect) -> ToolFailure {
    let message = if error.is_connect() {
        "the peer cannot be connected to"
    } else if effect == Effect::Message {
        return outcome_unknown("the connection to the peer broke off");
    } else {
        "the connection to the peer broke off"
    };
    passing(ToolErrorKind::ToolUnavailable, RetryReason::ToolUnavailable, message.to_owned(), None)
}

/// A response whose status is no success. `said` is the peer's own message.
pub(super) fn of_status(status: StatusCode, headers: &HeaderMap, said: &str, effect: Effect) -> RequestFailure {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let advice = seconds.map(|seconds| format!("Try again in {seconds} seconds."));
    let code = status.as_u16();
    let failure = match code {
        429 => {
            let message = format!("the peer limits how often it is asked (429){}", colon(said));
            passing(ToolErrorKind::RateLimited, RetryReason::RateLimited, message, advice)
        }
        503 => unavailable(code, said, advice),
        500..=599 if effect == Effect::Message => outcome_unknown(&format!("the peer failed ({code}){}", colon(said))),
        500..=599 => unavailable(code, said, advice),
        300..=399 => failed(format!(
            "the peer answered with a redirect ({code}), which is not followed; set agentCardUrl to its new address"
        )),
        401 | 403 => failed(format!(
            "the peer refused the credentials ({code}){}; check the tool's headers and oauth",
            colon(said)
        )),
        _ => failed(format!("the peer refused the request ({code}){}", colon(said))),
    };
    RequestFailure { failure, retry_after: seconds.map(Duration::from_secs) }
}

/// An error of JSON-RPC. The peer decided about the request, so its effect is known.
pub(super) fn of_rpc(code: i64, said: &str, effect: Effect) -> ToolFailure {
    const INTERNAL_ERROR: i64 = -32603;
    let message = format!("the peer answered with an error ({code}){}", colon(said));
    if code == INTERNAL_ERROR && effect == Effect::None {
        passing(ToolErrorKind::ToolUnavailable, RetryReason::ToolUnavailable, message, None)
    } else {
        failed(message)
    }
}

fn unavailable(code: u16, said: &str, advice: Option<String>) -> ToolFailure {
    let message = format!("the peer is not available now ({code}){}", colon(said));
    passing(ToolErrorKind::ToolUnavailable, RetryReason::ToolUnavailable, message, advice)
}

/// Another attempt is for idempotent tools only: the peer may know the message by its id.
pub(super) fn outcome_unknown(what: &str) -> ToolFailure {
    let message = format!("{what}; it may have accepted the message and work on it");
    ToolFailure::new(ToolErrorKind::OutcomeUnknown, message).retryable()
}

pub(super) fn passing(
    kind: ToolErrorKind,
    reason: RetryReason,
    message: String,
    advice: Option<String>,
) -> ToolFailure {
    let hint = RetryHint { message: advice, ..RetryHint::new(reason) };
    ToolFailure::new(kind, message).retryable().with_hint(hint)
}

pub(super) fn colon(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}
