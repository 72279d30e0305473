//! Why a run failed: a stable code for programs, a sentence for people. Each code has a page in `docs/errors`.

use serde::{Deserialize, Serialize};

/// The failure a run ends with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{}: {message}", kind.code())]
pub struct RunFailure {
    pub kind: RunFailureKind,
    pub message: String,
    /// The provider's class of error, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
    /// Whether starting the same run again may succeed.
    #[serde(default)]
    pub retryable: bool,
    /// The provider's HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_status: Option<u16>,
    /// The provider's own code for the error, such as `insufficient_quota`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_code: Option<String>,
    /// The model's text before it failed, if it is small enough for the envelope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_text: Option<String>,
}

impl RunFailure {
    pub fn new(kind: RunFailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            error_class: None,
            retryable: false,
            api_status: None,
            api_code: None,
            partial_text: None,
        }
    }

    #[must_use]
    pub fn of_class(mut self, class: &str) -> Self {
        self.error_class = Some(class.to_owned());
        self
    }

    pub fn code(&self) -> &'static str {
        self.kind.code()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunFailureKind {
    ModelFailed,
    ModelTimedOut,
    FinalizerFailed,
    AwaitExpired,
    OpenFailed,
    TooDeep,
    StoreRefused,
    /// The last answer was truncated.
    AnswerTruncated,
    /// The model refused to answer, or wrote a call that cannot be read.
    AnswerRefused,
    /// The last answer does not match the agent's output schema.
    OutputMisfit,
    /// The caller did not send the result of its own tool within the time limit.
    LocalToolTimedOut,
    /// The workflow was terminated, timed out or deleted on the server. The name on the wire is older than the variant's.
    #[serde(rename = "overruled")]
    ClosedExternally,
    /// The run was accepted, but its workflow could not be started.
    NotStarted,
    /// The provider withheld the answer.
    AnswerFiltered,
    /// The provider paused one answer too many times.
    AnswerUnfinished,
}

impl RunFailureKind {
    pub fn code(self) -> &'static str {
        match self {
            Self::ModelFailed => "RUN0001",
            Self::ModelTimedOut => "RUN0002",
            Self::FinalizerFailed => "RUN0003",
            Self::AwaitExpired => "RUN0004",
            Self::OpenFailed => "RUN0005",
            Self::TooDeep => "RUN0006",
            Self::StoreRefused => "RUN0007",
            Self::AnswerTruncated => "RUN0008",
            Self::AnswerRefused => "RUN0009",
            Self::OutputMisfit => "RUN0010",
            Self::LocalToolTimedOut => "RUN0011",
            Self::ClosedExternally => "RUN0012",
            Self::NotStarted => "RUN0013",
            Self::AnswerFiltered => "RUN0014",
            Self::AnswerUnfinished => "RUN0015",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_externally_closed_run_keeps_its_wire_name() {
        let kind = RunFailureKind::ClosedExternally;
        assert_eq!((json!(kind), kind.code()), (json!("overruled"), "RUN0012"));
        assert_eq!(serde_json::from_value::<RunFailureKind>(json!("overruled")).unwrap(), kind);
    }
}
