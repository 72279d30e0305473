//! The model port and the models behind it.
//!
//! An adapter turns a [`ModelRequest`] into one [`ModelResponse`], handing over deltas as they come. It never retries:
//! it says whether a failure is retryable and after what delay, and Temporal retries.

mod error;
mod registry;
pub mod script;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::OutputSchema,
    envelope::{AwaitRequest, PlannerNote, TokenUsage},
    ids::{CallId, RunId, ToolName},
    message::Message,
};

pub use self::{
    error::{ErrorClass, ModelError},
    registry::{ModelRegistry, UnknownModel},
};

/// One question to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    pub run_id: RunId,
    /// Which model call of the run this is, from 0.
    pub call_index: u32,
    /// From 1.
    pub attempt: u32,
    /// The id without its scheme: `demo` for `script:demo`.
    pub model: String,
    pub system: String,
    /// Shared with whoever keeps the conversation for the next turn.
    pub messages: Arc<Vec<Message>>,
    pub tools: Arc<[ToolDeclaration]>,
    pub tool_choice: ToolChoice,
    /// How hard to think, from 0 (not at all) to 100; `None` leaves it to the model.
    pub reasoning_level: Option<u8>,
    /// What the final answer must look like.
    pub output_schema: Option<OutputSchema>,
    /// Fires when the answer is no longer wanted.
    pub cancel: CancellationToken,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolDeclaration {
    pub name: ToolName,
    pub description: String,
    pub input_schema: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolChoice {
    Auto,
    /// No tool may be called.
    None,
}

/// A piece of an answer on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    Text(String),
    Thinking(String),
}

/// Receives deltas in order. An error from it ends the call: nobody is listening any more.
#[async_trait]
pub trait DeltaSink: Send {
    async fn push(&mut self, delta: Delta) -> Result<(), ModelError>;
}

/// One complete answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelResponse {
    pub text: String,
    pub thinking: Option<String>,
    pub tool_calls: Vec<RequestedCall>,
    pub awaits: Vec<AwaitRequest>,
    pub notes: Vec<PlannerNote>,
    /// For example `end_turn` or `tool_use`.
    pub stop: String,
    pub usage: TokenUsage,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RequestedCall {
    /// The provider's id, if it gave one.
    pub id: Option<CallId>,
    pub name: ToolName,
    pub args: Value,
}

/// A way to reach models of one kind.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    async fn respond(&self, request: ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError>;
}
