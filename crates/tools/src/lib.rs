//! The tool port and the tools built in.
//!
//! A tool gets its arguments already coerced and checked, an idempotency key and a cancellation token. It never retries
//! on its own; a failure is a [`ToolFailure`] the model can read.

mod args;
mod clock;
#[cfg(test)]
mod fixtures;
mod http_get;
mod notes;
mod registry;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::ToolSpec,
    envelope::{Bounds, RetryHint, ToolError, ToolErrorKind},
    ids::{CallId, RunId, WorkspaceId},
};

pub use self::{
    clock::Clock,
    http_get::{HttpGet, HttpGetError, HttpGetOptions},
    notes::{NotesAdd, NotesSearch},
    registry::ToolRegistry,
};

/// The circumstances of one call.
#[derive(Debug, Clone)]
pub struct CallContext {
    pub workspace: WorkspaceId,
    pub run_id: RunId,
    /// Also the idempotency key to pass on to whatever the tool calls.
    pub call_id: CallId,
    /// From 1; above 1 an earlier attempt may have had effects.
    pub attempt: u32,
    /// Fires when the result is no longer wanted.
    pub cancel: CancellationToken,
}

/// A successful call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSuccess {
    pub result: Value,
    pub bounds: Option<Bounds>,
    /// For people and programs, never for the model.
    pub server_data: Option<Value>,
}

impl ToolSuccess {
    pub fn new(result: Value) -> Self {
        Self { result, bounds: None, server_data: None }
    }
}

/// A failed call, in words the model can use.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolFailure {
    pub error: ToolError,
    /// Boxed because most failures have none.
    pub hint: Option<Box<RetryHint>>,
    /// Whether another attempt of an idempotent tool may help.
    pub retryable: bool,
}

impl ToolFailure {
    pub fn new(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self { error: ToolError::new(kind, message), hint: None, retryable: false }
    }

    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    #[must_use]
    pub fn with_hint(mut self, hint: RetryHint) -> Self {
        self.hint = Some(Box::new(hint));
        self
    }
}

/// Something an agent can call on this worker.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// What an agent gets when its definition only names the tool: description, schema, tags, timeout, idempotence.
    fn spec(&self) -> ToolSpec;

    async fn call(&self, context: CallContext, args: Value) -> Result<ToolSuccess, ToolFailure>;
}
