//! Why a model did not answer, in the words of the agent-runs protocol.
//!
//! Adapters do not retry. An adapter reports whether a failure is retryable; the plan activity's retry policy does the
//! rest.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::envelope::TokenUsage;

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    RateLimit,
    Overloaded,
    /// The provider failed.
    Server,
    /// The conversation is larger than the model can read.
    ContextWindow,
    /// The answer was cut off.
    Truncation,
    InvalidRequest,
    Auth,
    /// The provider took too long.
    Timeout,
    /// A tool on the caller's side took too long.
    LocalTimeout,
    /// Something between here and the provider took too long.
    UpstreamDeadline,
    Unknown,
    /// The provider does not accept the output schema.
    StructuredOutputSchemaRejected,
    /// The run was cancelled, or the worker is shutting down.
    Cancelled,
}

impl ErrorClass {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::ContextWindow => "context_window",
            Self::Truncation => "truncation",
            Self::InvalidRequest => "invalid_request",
            Self::Auth => "auth",
            Self::Timeout => "timeout",
            Self::LocalTimeout => "local_timeout",
            Self::UpstreamDeadline => "upstream_deadline",
            Self::Unknown => "unknown",
            Self::StructuredOutputSchemaRejected => "structured_output_schema_rejected",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(self) -> bool {
        match self {
            Self::RateLimit | Self::Overloaded | Self::Server | Self::Timeout | Self::UpstreamDeadline => true,
            Self::ContextWindow
            | Self::Truncation
            | Self::InvalidRequest
            | Self::Auth
            | Self::LocalTimeout
            | Self::Unknown
            | Self::StructuredOutputSchemaRejected
            | Self::Cancelled => false,
        }
    }
}

/// A model call that failed. The message may be shown to every user: it never quotes prompts, answers or credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub class: ErrorClass,
    pub message: String,
    pub retryable: bool,
    /// How long the provider asks callers to wait before a retry.
    pub retry_after: Option<Duration>,
    /// The provider's HTTP status.
    pub api_status: Option<u16>,
    /// The provider's own code for the error, such as `insufficient_quota`.
    pub api_code: Option<String>,
    /// What the provider had counted before it failed, and charges for.
    pub usage: Option<Box<TokenUsage>>,
}

impl ModelError {
    /// Retryable if failures of this class usually pass.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            retryable: class.is_transient(),
            retry_after: None,
            api_status: None,
            api_code: None,
            usage: None,
        }
    }

    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::InvalidRequest, message)
    }

    pub fn cancelled() -> Self {
        Self::new(ErrorClass::Cancelled, "the model call was cancelled before it was answered")
    }

    #[must_use]
    pub fn with_retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }

    #[must_use]
    pub fn with_retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    #[must_use]
    pub fn with_api_status(mut self, status: u16) -> Self {
        self.api_status = Some(status);
        self
    }

    #[must_use]
    pub fn with_api_code(mut self, code: impl Into<String>) -> Self {
        self.api_code = Some(code.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_class_has_one_name_for_programs_and_for_json() {
        let names = [
            "rate_limit",
            "overloaded",
            "server",
            "context_window",
            "truncation",
            "invalid_request",
            "auth",
            "timeout",
            "local_timeout",
            "upstream_deadline",
            "unknown",
            "structured_output_schema_rejected",
            "cancelled",
        ];
        for name in names {
            let class: ErrorClass = serde_json::from_value(json!(name)).unwrap();
            assert_eq!((class.as_str(), json!(class)), (name, json!(name)));
        }
        assert!(serde_json::from_value::<ErrorClass>(json!("gremlins")).is_err());
    }

    #[test]
    fn the_class_decides_on_retrying_unless_the_provider_knows_better() {
        let busy = ModelError::new(ErrorClass::Overloaded, "busy")
            .with_retry_after(Duration::from_secs(3))
            .with_api_status(529)
            .with_api_code("overloaded_error");
        assert_eq!(
            busy,
            ModelError {
                class: ErrorClass::Overloaded,
                message: "busy".into(),
                retryable: true,
                retry_after: Some(Duration::from_secs(3)),
                api_status: Some(529),
                api_code: Some("overloaded_error".into()),
                usage: None,
            }
        );
        assert!(!busy.with_retryable(false).retryable);
        assert!(!ModelError::invalid_request("no such field").retryable);
        assert!(!ModelError::cancelled().retryable);
    }
}
