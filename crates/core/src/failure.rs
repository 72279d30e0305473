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
    /// What the model had said before it failed, when that is small enough to travel.
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
    /// The last answer was cut off.
    AnswerTruncated,
    /// The model would not answer, or could not write what it meant to.
    AnswerRefused,
    /// The last answer is not what the agent's output schema wants.
    OutputMisfit,
    /// The caller did not answer a call of its own tool in time.
    LocalToolTimedOut,
    /// Its workflow was closed without the run having a say.
    Overruled,
    /// It was accepted, and its workflow could never be started.
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
            Self::Overruled => "RUN0012",
            Self::NotStarted => "RUN0013",
            Self::AnswerFiltered => "RUN0014",
            Self::AnswerUnfinished => "RUN0015",
        }
    }
}
