//! The model port and the models behind it.
//!
//! An adapter turns a [`ModelRequest`] into one [`ModelResponse`], handing over deltas as they come. It never retries:
//! it says whether a failure is retryable and after what delay, and Temporal retries.

pub mod anthropic;
#[cfg(test)]
pub(crate) mod cassette;
mod error;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod gemini;
pub mod limits;
mod openai;
pub mod openai_chat;
pub mod openai_responses;
mod registry;
pub mod script;
mod spec;
mod tokens;
pub mod wire;

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::{ModelParameters, OutputSchema},
    envelope::{AwaitRequest, TokenUsage},
    event::EnforcementMechanism,
    ids::{RunId, ToolName},
    message::{Message, Part},
    stop::StopReason,
};

pub use self::{
    error::{ErrorClass, ModelError},
    registry::{ModelRegistry, Resolved, UnknownModel},
    spec::{Effort, ModelSpec, ReasoningControl, StructuredOutputControl, thinking_budget},
    tokens::{estimate_tokens, tool_tokens},
};

/// One model call: everything a provider needs.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    pub run_id: RunId,
    /// Which model call of the run this is, from 0.
    pub call_index: u32,
    /// From 1.
    pub attempt: u32,
    /// The provider's name in the config: `anthropic`. Provider items of parts that have this name are replayed.
    pub provider: String,
    /// The provider's name of the model: `demo` for `script:demo`.
    pub model: String,
    pub spec: Arc<ModelSpec>,
    pub system: String,
    /// Shared with the worker's cache, which keeps the conversation for the next turn. Images and documents are inline.
    pub messages: Arc<Vec<Message>>,
    /// Sorted by name, so that the prompt's prefix has the same bytes on every turn.
    pub tools: Arc<[ToolDeclaration]>,
    pub tool_choice: ToolChoice,
    /// How hard to think, from 0 (not at all) to 100; `None` leaves it to the model.
    pub reasoning_level: Option<u8>,
    /// What the final answer must look like.
    pub output_schema: Option<OutputSchema>,
    pub parameters: ModelParameters,
    /// The key for the provider: the agent's own, or the one that the config refers to. Absent for a provider without keys.
    pub credentials: Option<SecretString>,
    /// When this attempt times out.
    pub deadline: Option<Instant>,
    /// Fires when the call is cancelled.
    pub cancel: CancellationToken,
}

impl ModelRequest {
    /// The most tokens of output that are asked for and that the model has.
    fn output_limit(&self) -> Option<u32> {
        self.parameters.max_output_tokens.map(|asked| asked.min(self.spec.max_output_tokens.unwrap_or(u32::MAX)))
    }

    /// The temperature and top-p, if the model takes them.
    fn sampling(&self) -> (Option<f64>, Option<f64>) {
        let ModelParameters { temperature, top_p, .. } = self.parameters;
        if self.spec.sampling { (temperature, top_p) } else { (None, None) }
    }
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

/// A piece of an answer on its way, by the part it belongs to: parts are numbered from 0 in the order in which they begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    pub part: u32,
    pub kind: DeltaKind,
}

impl Delta {
    fn of(part: usize, kind: DeltaKind) -> Self {
        Self { part: u32::try_from(part).unwrap_or(u32::MAX), kind }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeltaKind {
    Text(String),
    Thinking(String),
    CallStarted {
        name: ToolName,
    },
    /// A piece of the JSON text of a call's arguments.
    CallArguments(String),
    CallDone,
    /// The provider executed a tool of its own.
    ProviderToolDone {
        name: String,
    },
}

/// Receives deltas in order. An error from it ends the call.
#[async_trait]
pub trait DeltaSink: Send {
    async fn push(&mut self, delta: Delta) -> Result<(), ModelError>;
}

/// One complete answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelResponse {
    /// In the order in which they came. The id of a call is the provider's; the run gives it one of its own.
    pub parts: Vec<Part>,
    /// What a scripted model wants from the outside world. Providers ask by calling tools.
    pub awaits: Vec<AwaitRequest>,
    pub stop: StopReason,
    pub usage: TokenUsage,
    /// The provider's id of the response, for its support.
    pub response_id: Option<String>,
    /// How the output schema was enforced; [`EnforcementMechanism::None`] if the request has none or nothing enforced it.
    pub enforced: EnforcementMechanism,
}

/// A way to reach models of one kind.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    async fn respond(&self, request: ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError>;
}
