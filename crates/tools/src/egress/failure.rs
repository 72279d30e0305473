//! What went wrong with a request, in words for the model. Addresses and URLs stay out of them.

use std::error::Error;

use chrono::{DateTime, Utc};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use windlass_core::envelope::{RetryHint, RetryReason, ToolErrorKind};

use super::resolver::AddressRefused;
use crate::ToolFailure;

pub(crate) fn address_refused() -> ToolFailure {
    let message = "this host is not on the public internet; only public addresses can be fetched";
    ToolFailure::new(ToolErrorKind::PolicyDenied, message)
}

pub(crate) fn timed_out() -> ToolFailure {
    passing(ToolErrorKind::Timeout, RetryReason::Timeout, "the server took too long to answer", None)
}

/// A failure below HTTP.
pub(crate) fn of_transport(error: &reqwest::Error) -> ToolFailure {
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

pub(crate) fn retry_advice(headers: &HeaderMap) -> Option<String> {
    retry_after(headers).map(|seconds| format!("Try again in {seconds} seconds."))
}

/// In how many seconds the server wants to be asked again. It says that as seconds, or as a date.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<u32> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    text.parse::<u32>().ok().or_else(|| {
        let left = DateTime::parse_from_rfc2822(text).ok()?.signed_duration_since(Utc::now()).num_seconds();
        u32::try_from(left.max(0)).ok()
    })
}

/// A failure that another attempt may not have.
pub(crate) fn passing(kind: ToolErrorKind, reason: RetryReason, message: &str, advice: Option<String>) -> ToolFailure {
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
