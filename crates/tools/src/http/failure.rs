//! What a status of 400 and above means.

use reqwest::{Response, StatusCode};
use windlass_core::envelope::{RetryReason, ToolErrorKind};

use crate::{
    ToolFailure,
    egress::{ContentType, Credentials, passing, read_up_to, retry_advice},
};

/// What is read of an error page.
const READ_BYTES: usize = 16 * 1024;
/// What is shown of it.
const SHOWN_CHARS: usize = 500;

pub(super) async fn of_status(mut response: Response, credentials: &Credentials) -> ToolFailure {
    let status = response.status();
    let advice = retry_advice(response.headers());
    let said = said(&mut response, credentials).await;
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let mut message = format!("the server answered {}{reason}", status.as_u16());
    if !said.is_empty() {
        message.push_str(": ");
        message.push_str(&said);
    }
    match status {
        StatusCode::TOO_MANY_REQUESTS => {
            passing(ToolErrorKind::RateLimited, RetryReason::RateLimited, &message, advice)
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => {
            passing(ToolErrorKind::ToolUnavailable, RetryReason::ToolUnavailable, &message, advice)
        }
        status if status.is_server_error() => {
            passing(ToolErrorKind::ToolUnavailable, RetryReason::ToolUnavailable, &message, advice)
        }
        _ => ToolFailure::new(ToolErrorKind::ToolFailed, message),
    }
}

/// The beginning of what the server says, without secrets and control characters.
async fn said(response: &mut Response, credentials: &Credentials) -> String {
    let Ok(content_type) = ContentType::of(response.headers()) else { return String::new() };
    if !content_type.is_text() {
        return String::new();
    }
    let Ok(mut read) = read_up_to(response, READ_BYTES).await else { return String::new() };
    if read.truncated {
        // The end may be the beginning of a secret, which would not be recognised.
        read.bytes.truncate(READ_BYTES.saturating_sub(credentials.longest_secret()));
    }
    content_type.decode(&read).map(|text| shown(&text, credentials)).unwrap_or_default()
}

fn shown(text: &str, credentials: &Credentials) -> String {
    let printable = |text: &str| -> String {
        let spaced = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
        spaced.filter(|c| !c.is_control()).collect()
    };
    // Twice: control characters may hide a secret, or be a part of it. The cut comes last, because a part of a secret
    // would not be recognised.
    let redacted = credentials.redact(&printable(&credentials.redact(text)));
    let redacted = redacted.trim();
    let mut shown: String = redacted.chars().take(SHOWN_CHARS).collect();
    if shown.len() < redacted.len() {
        shown.push('…');
    }
    shown
}
