//! The errors of the client.

use std::time::Duration;

use serde_json::{Map, Value};
use windlass_core::ids::{CallId, RunId};

/// Every error has a stable code with a page in `docs/errors`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input is not valid; no request was sent.
    #[error("CLT0001: {what}")]
    Unusable { what: String },
    /// The server could not be reached, or the connection was lost before its response. The request may have been executed.
    #[error("CLT0002: no response from {url}: {reason}; check that the server is running")]
    Unreachable {
        url: String,
        reason: String,
        /// Whether the request may have arrived.
        sent: bool,
    },
    #[error("CLT0003: {0}")]
    Refused(Box<Refusal>),
    /// The response is not one of the agent-runs protocol.
    #[error("CLT0004: the response of {url} is not one of an agent-runs server: {reason}")]
    InvalidResponse { url: String, reason: String },
    /// The server of a stream was unreachable for too long. The run continues.
    #[error(
        "CLT0005: stopped following {run}: the server was unreachable for {away:?} ({reason}); attach to the run again"
    )]
    GaveUp { run: RunId, away: Duration, reason: String },
    /// The run ended without an answer.
    #[error("CLT0006: {0}")]
    Run(Box<RunError>),
    /// The answer does not match the output schema or the type.
    #[error("CLT0007: the answer does not match what was requested: {reason}")]
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
    /// The HTTP status of an error response.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            _ => None,
        }
    }

    /// The shortest pause before a start is sent again; `None` if it is not sent again.
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
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(refusal) => refusal.status >= 500 || refusal.status == 429,
            Self::ToolResult { reason, .. } => reason.is_transient(),
            _ => false,
        }
    }
}

/// An error response of the server.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the server refused ({status} {code}): {message}{}", hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default())]
#[non_exhaustive]
pub struct Refusal {
    pub status: u16,
    /// The error code: `invalid_request`, `unauthorized`, `run_terminal`, …
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
    /// The field of the request that is not valid.
    pub field: Option<String>,
    pub retry_after: Option<Duration>,
    /// The whole body.
    pub body: Map<String, Value>,
}

impl Refusal {
    /// From the body of a response, which need not be one of this protocol.
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
    /// The class of the failure: `rate_limit`, `truncation`, `auth`, `local_timeout`, …
    pub error_class: Option<String>,
    /// The failure's code, if the server has one (`RUN0001`, …).
    pub failure: Option<String>,
    pub message: String,
    pub finish_reason: Option<String>,
    /// The text of the model before it failed.
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
    fn an_error_response_of_any_shape_is_read() {
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
    fn unreachable_and_busy_servers_are_transient_errors() {
        let refused = |status| Error::Refused(Box::new(Refusal::new(status, None, b"")));
        for (status, passes) in [(400, false), (401, false), (404, false), (409, false), (429, true), (503, true)] {
            assert_eq!(refused(status).is_transient(), passes, "{status}");
        }
        assert!(Error::Unreachable { url: String::new(), reason: String::new(), sent: false }.is_transient());
    }
}
