//! The tool port and the tools built in.
//!
//! A tool gets its arguments already coerced and checked, an idempotency key and a cancellation token. It never retries
//! on its own; a failure is a [`ToolFailure`] the model can read.

mod a2a;
mod args;
mod clock;
mod egress;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod hostile;
mod http;
mod http_get;
mod mcp;
mod notes;
pub mod openapi;
mod progress;
mod registry;
mod toolbox;

use std::{fmt, sync::Arc, time::Instant};

use async_trait::async_trait;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::ToolSpec,
    canonical::CanonicalJson,
    envelope::{Bounds, Continuation, Resumption, RetryHint, ToolError, ToolErrorKind},
    ids::{CallId, RunId, SessionId, WorkspaceId},
    message::Part,
    secret::SecretRef,
};

pub use self::{
    a2a::{A2aClients, A2aPeers, AgentCardSummary, AgentInterface, AgentSkill},
    clock::Clock,
    egress::{AllowedNetwork, Egress, EgressError, EgressRules, Post, PostFailure},
    http::HttpTools,
    http_get::{HttpGet, HttpGetOptions},
    mcp::{McpEndpoint, McpInspection, McpServers},
    notes::{NotesAdd, NotesSearch},
    progress::{Progress, ProgressReports, ProgressSink},
    registry::ToolRegistry,
    toolbox::{McpServerConfig, Toolbox},
};

/// The context of one call.
#[derive(Clone)]
pub struct CallContext {
    pub workspace: WorkspaceId,
    /// The conversation that the run belongs to.
    pub session_id: Option<SessionId>,
    pub run_id: RunId,
    /// Also the idempotency key to pass on to the systems that the tool calls.
    pub call_id: CallId,
    /// From 1; above 1 an earlier attempt may have had effects.
    pub attempt: u32,
    /// When this attempt times out.
    pub deadline: Option<Instant>,
    /// Receives the tool's progress reports.
    pub progress: ProgressSink,
    pub secrets: Arc<dyn SecretSource>,
    /// Fires when the call is cancelled.
    pub cancel: CancellationToken,
    /// Fires when this worker shuts down. `cancel` fires as well then, but the result is still wanted: another worker
    /// goes on with a call that may be repeated.
    pub draining: CancellationToken,
    /// In the second and later rounds of a call; see [`ToolReply::Continue`].
    pub resumption: Option<Resumption>,
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("run_id", &self.run_id)
            .field("call_id", &self.call_id)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Reads secrets for the call that uses them.
#[async_trait]
pub trait SecretSource: Send + Sync + 'static {
    /// The value, or a failure that names the reference and never the value.
    async fn secret(&self, reference: &SecretRef) -> Result<SecretString, ToolFailure>;

    /// Takes note of a secret that was obtained with another, such as an access token.
    fn derived(&self, _value: &SecretString) {}
}

/// A successful call: parts for the model, a structured result, or both.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSuccess {
    /// Structured content; `null` if there are parts only.
    pub result: CanonicalJson,
    /// Text, images and documents.
    pub content: Vec<Part>,
    pub bounds: Option<Bounds>,
    /// For people and programs, never for the model.
    pub server_data: Option<serde_json::Value>,
}

impl ToolSuccess {
    pub fn new(result: impl Into<CanonicalJson>) -> Self {
        Self { result: result.into(), content: Vec::new(), bounds: None, server_data: None }
    }
}

/// What a tool that is reached over a protocol replies.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolReply {
    Done(ToolSuccess),
    /// The call is not over: the run executes it again with this state, after a person gave the inputs if there are any.
    Continue(Continuation),
}

/// A failed call. The model reads the message.
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

    async fn call(&self, context: CallContext, args: CanonicalJson) -> Result<ToolSuccess, ToolFailure>;
}
