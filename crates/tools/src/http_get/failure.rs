//! What went wrong with a fetch, in words for the model. Addresses and URLs stay out of them.

use std::error::Error;

use reqwest::{Response, StatusCode, header::RETRY_AFTER};
use windlass_core::envelope::{RetryHint, RetryReason, ToolErrorKind};

use super::resolver::AddressRefused;
use crate::ToolFailure;

pub(super) fn address_refused() -> ToolFailure {
    let message = "this host is not on the public internet; only public addresses can be fetched";
    ToolFailure::new(ToolErrorKind::PolicyDenied, message)
}

pub(super) fn cancelled() -> ToolFailure {
    ToolFailure::new(ToolErrorKind::Cancelled, "the fetch was cancelled")
}

pub(super) fn timed_out() -> ToolFailure {
    passing(ToolErrorKind::Timeout, RetryReason::Timeout, "the server took too long to answer", None)
}

/// A failure below HTTP.
pub(super) fn of_transport(error: &reqwest::Error) -> ToolFailure {
    if is_refused_address(error) {
        return address_refused();
    }
    let message = if error.is_dns() {
        "the host's name leads nowhere"
    } else if error.is_connect() {
        "the host cannot be connected to"
    } else {
        "the connection broke off before the response was complete"
    };
    passing(ToolErrorKind::ToolUnavailable, RetryReason::ToolUnavailable, message, None)
}

/// The two statuses of a temporary refusal.
pub(super) fn of_status(response: &Response) -> Option<ToolFailure> {
    let (kind, reason, message) = match response.status() {
        StatusCode::TOO_MANY_REQUESTS => {
            (ToolErrorKind::RateLimited, RetryReason::RateLimited, "the server limits how often it is asked (429)")
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            (ToolErrorKind::ToolUnavailable, RetryReason::ToolUnavailable, "the server is not available now (503)")
        }
        _ => return None,
    };
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    Some(passing(kind, reason, message, seconds.map(|seconds| format!("Try again in {seconds} seconds."))))
}

fn passing(kind: ToolErrorKind, reason: RetryReason, message: &str, advice: Option<String>) -> ToolFailure {
    let hint = RetryHint { message: advice, ..RetryHint::new(reason) };
    ToolFailure::new(kind, message).retryable().with_hint(hint)
}

fn is_refused_address(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<AddressRefused>() {
            return true;
        }
        cause = error.source();
    }
    false
}
