//! Error responses.
//!
//! `error` and `message` have the text, `code` the error code, so that all known SDKs show both. An internal error says
//! no more than that; the server's log has the details, with the request id.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};
use windlass_ops::OpsError;
use windlass_store::{ErrorKind, StoreError};

use crate::{
    query::invalid,
    spec::{Invalid, SpecError},
};

pub(crate) type Result<T> = std::result::Result<T, ApiError>;

/// An error response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Further fields of the body.
    pub(crate) extra: Map<String, Value>,
    pub(crate) retry_after_secs: Option<u64>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), extra: Map::new(), retry_after_secs: None }
    }

    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.to_owned(), value.into());
        self
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// Also for resources of other workspaces, so that a caller does not learn that they exist.
    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("this workspace has no such {what}"))
    }

    pub(crate) fn unauthorized() -> Self {
        let message = "the API key is missing or not valid; send `Authorization: Bearer KEY` (create a key with `windlass keys create`)";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// Only the holder of the key gets this.
    pub(crate) fn key_ended(how: &str) -> Self {
        let message = format!("this key {how}; create a new one with `windlass keys create`");
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub(crate) fn scope(required: &str) -> Self {
        let message = format!(
            "this key does not have the scope {required}; use a key that has it, or create one with `windlass keys create --scope {required}`"
        );
        Self::new(StatusCode::FORBIDDEN, "insufficient_scope", message).with("required", json!([required]))
    }

    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub(crate) fn run_exists() -> Self {
        Self::conflict("run_exists", "a run with this id already exists")
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        let mut error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        error.retry_after_secs = Some(1);
        error
    }

    pub(crate) fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "request failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "internal error; the server's log has the details under this request's x-request-id",
        )
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { status, code, message, mut extra, retry_after_secs } = self;
        let scope = extra.get("required").and_then(|required| required[0].as_str()).map(str::to_owned);
        extra.insert("error".to_owned(), message.clone().into());
        extra.insert("message".to_owned(), message.into());
        extra.insert("code".to_owned(), code.into());
        let mut response = (status, Json(extra)).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = retry_after_secs {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        let challenge = match status {
            StatusCode::UNAUTHORIZED => Some("Bearer".to_owned()),
            StatusCode::FORBIDDEN => {
                scope.map(|scope| format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\""))
            }
            _ => None,
        };
        if let Some(Ok(challenge)) = challenge.map(HeaderValue::try_from) {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> Self {
        Self::invalid(invalid.to_string()).with("field", invalid.field)
    }
}

impl From<SpecError> for ApiError {
    fn from(error: SpecError) -> Self {
        let message = error.to_string();
        match error {
            SpecError::Invalid(invalid) => invalid.into(),
            SpecError::Model(unknown) => Self::new(StatusCode::BAD_REQUEST, "invalid_model", message)
                .with("field", "modelId")
                .with("candidates", unknown.candidates),
            SpecError::Agent(_) | SpecError::UnknownAgent(_) => {
                Self::new(StatusCode::FORBIDDEN, "agent_not_allowed", message).with("field", "agentId")
            }
            SpecError::NotAllowed(refusal) => {
                Self::new(StatusCode::FORBIDDEN, "agent_not_allowed", message).with("field", refusal.field)
            }
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match (&error, error.kind()) {
            // The store's message names the store's field.
            (StoreError::InvalidArgument { argument: argument @ "cursor", .. }, _) => {
                invalid(argument, "is not a valid cursor; send the nextCursor of the previous page unchanged")
            }
            (StoreError::InvalidArgument { argument, .. }, _) => {
                Self::invalid(error.to_string()).with("field", (*argument).to_owned())
            }
            (StoreError::RunExists { .. }, _) => Self::run_exists(),
            (_, ErrorKind::NotFound) => Self::not_found("run"),
            (_, ErrorKind::Ended) => Self::conflict("session_ended", "the session has ended; start a new one"),
            (_, ErrorKind::Unavailable) => {
                tracing::warn!(%error, "store is not available");
                Self::unavailable("the store is not available; try again")
            }
            _ => Self::internal(&error),
        }
    }
}

impl From<OpsError> for ApiError {
    fn from(error: OpsError) -> Self {
        match error {
            OpsError::NotFound { .. } => Self::not_found("run"),
            OpsError::AlreadyExists { .. } => Self::run_exists(),
            OpsError::Unanswered { .. } => {
                Self::unavailable("no worker replied for this run; check that a worker is running")
            }
            OpsError::Store(error) => error.into(),
            OpsError::Input(message) => Self::invalid(message),
            OpsError::Unsettled { .. } => {
                tracing::warn!(%error, "the Temporal server did not answer a start");
                let message = "the run was accepted but is not confirmed to have started; send the same request with the \
                               same runId again, a repeat does not start a second run";
                Self::unavailable(message)
            }
            error => Self::internal(&error),
        }
    }
}
