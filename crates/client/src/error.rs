//! What can go wrong between a caller and its runs.

use std::time::Duration;

use serde_json::{Map, Value};
use windlass_core::ids::{CallId, RunId};

/// Every error has a stable code with a page in `docs/errors`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was given can never work; nothing was sent.
    #[error("CLT0001: {what}")]
    Unusable { what: String },
    /// The server was not reached, or went away before it had answered. Whether it did what it was asked is not known.
    #[error("CLT0002: no answer from {url}: {reason}; check that the server runs")]
    Unreachable {
        url: String,
        reason: String,
        /// Whether the request may have arrived.
        sent: bool,
    },
    #[error("CLT0003: {0}")]
    Refused(Box<Refusal>),
    /// The server answered, but not in this protocol.
    #[error("CLT0004: what came from {url} is no answer of an agent-runs server: {reason}")]
    Unintelligible { url: String, reason: String },
    /// A stream's server stayed away for too long. The run goes on without its reader.
    #[error(
        "CLT0005: {run} was not followed to its end: the server was away for {away:?} ({reason}); follow the run again"
    )]
    GaveUp { run: RunId, away: Duration, reason: String },
    /// The run ended without an answer.
    #[error("CLT0006: {0}")]
    Run(Box<RunError>),
    /// The answer is not what the caller asked for.
    #[error("CLT0007: the answer is not as it was asked for: {reason}")]
    Answer { reason: String },
    /// The server did not accept the result of a local tool call. The run still waits for it.
    #[error(
        "CLT0008: the result of {call} of {run} was not accepted: {reason}; send another with Client::tool_result, or \
         cancel the run"
    )]
    // Not a `source`: the message has it already.
    ToolResult { run: RunId, call: CallId, reason: Box<Error> },
}

impl Error {
    /// The HTTP status of a refusal.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            _ => None,
        }
    }

    /// How long to wait at least before a start is sent again. `None` if that would not help.
    pub(crate) fn retried_after(&self) -> Option<Duration> {
        match self {
            Self::Unreachable { .. } => Some(Duration::ZERO),
            Self::Refused(refusal) if matches!(refusal.status, 502..=504) => {
                Some(refusal.retry_after.unwrap_or_default())
            }
            _ => None,
        }
    }

    /// Whether the same request may succeed later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(refusal) => refusal.status >= 500 || refusal.status == 429,
            Self::ToolResult { reason, .. } => reason.may_pass(),
            _ => false,
        }
    }
}

/// A request that the server did not grant.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the server refused ({status} {code}): {message}{}", hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default())]
#[non_exhaustive]
pub struct Refusal {
    pub status: u16,
    /// The word for programs: `invalid_request`, `unauthorized`, `run_terminal`, …
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
    /// What is wrong with the request, by the name of its field.
    pub field: Option<String>,
    pub retry_after: Option<Duration>,
    /// Everything the server said.
    pub body: Map<String, Value>,
}

impl Refusal {
    /// From the body of an answer, which need not be one of this protocol.
    pub fn new(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let body: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
        let text = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
        Self {
            status,
            code: text("code").or_else(|| text("error")).unwrap_or_else(|| format!("http_{status}")),
            message: text("message").or_else(|| text("error")).unwrap_or_else(|| format!("HTTP {status}")),
            hint: text("hint"),
            field: text("field"),
            retry_after,
            body,
        }
    }
}

/// A run that ended without an answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{run} {}: {message}", if *cancelled { "was cancelled" } else { "failed" })]
#[non_exhaustive]
pub struct RunError {
    pub run: RunId,
    pub cancelled: bool,
    /// What kind of failure it was: `rate_limit`, `truncation`, `auth`, `local_timeout`, …
    pub error_class: Option<String>,
    /// The server's own code for it, where it has one (`RUN0001`, …).
    pub failure: Option<String>,
    pub message: String,
    pub finish_reason: Option<String>,
    /// What the model had said before it failed.
    pub partial_text: Option<String>,
    /// Whether another run may succeed.
    pub retryable: bool,
    /// The HTTP status of the model's provider.
    pub api_status: Option<u16>,
    /// The model provider's own code for the error, such as `insufficient_quota`.
    pub api_code: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_leniently() {
        let refusal = |body: &str| {
            let Refusal { code, message, hint, .. } = Refusal::new(404, None, body.as_bytes());
            (code, message, hint)
        };
        let words = |code: &str, message: &str, hint: Option<&str>| {
            (code.to_owned(), message.to_owned(), hint.map(str::to_owned))
        };
        assert_eq!(
            refusal(r#"{"error": "no run", "message": "no run", "code": "not_found", "hint": "h"}"#),
            words("not_found", "no run", Some("h"))
        );
        assert_eq!(refusal(r#"{"error": "not_found"}"#), words("not_found", "not_found", None));
        assert_eq!(refusal("<html>"), words("http_404", "HTTP 404", None));
    }

    #[test]
    fn what_may_pass_is_a_server_that_is_away_or_busy() {
        let refused = |status| Error::Refused(Box::new(Refusal::new(status, None, b"")));
        for (status, passes) in [(400, false), (401, false), (404, false), (409, false), (429, true), (503, true)] {
            assert_eq!(refused(status).may_pass(), passes, "{status}");
        }
        assert!(Error::Unreachable { url: String::new(), reason: String::new(), sent: false }.may_pass());
    }
}
