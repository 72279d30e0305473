//! The boundary of the bookkeeping activities: opening a run, recording what the workflow caused, settling a call.

use serde::{Deserialize, Serialize};

use super::{BlobRef, PlanActivityOutput, RunInput, ToolCallOutput, ToolOutput, TranscriptHead, version};
use crate::{
    agent::{Enforcement, ToolTable},
    canonical::Digest,
    event::NewEvent,
    ids::{CallId, RunId},
    message::Message,
    policy::AgentPolicy,
    run::{Phase, RunStatus},
};

/// What the workflow caused but has not written yet. Delivered with the next activity, at least once; every entry is
/// idempotent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Outbox {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<OutboxMessage>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<NewEvent>,
}

impl Outbox {
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.events.is_empty()
    }
}

/// A message to append to the transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OutboxMessage {
    /// Appended as it is.
    Message { message: Message },
    /// The results of a batch, one user message; bodies that did not travel are read from the store.
    ToolResults { results: Vec<ToolCallOutput> },
}

/// Input of the `open` activity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenInput {
    #[serde(default = "version")]
    pub v: u32,
    pub run: RunInput,
    /// The first workflow execution of the run: what tells it from another run of the same id.
    #[serde(default)]
    pub execution: String,
}

/// What the workflow must know of the agent, and where the transcript starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenOutput {
    #[serde(default = "version")]
    pub v: u32,
    pub agent_digest: Digest,
    pub policy: AgentPolicy,
    pub tools: ToolTable,
    pub head: TranscriptHead,
    /// The model the run asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// How the agent's output schema is enforced; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<Enforcement>,
    /// The models to ask if the provider of the run's model does not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    /// The run's own model, if its session has changed to the fallback `model_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_model_id: Option<String>,
}

/// Input of the `record` activity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordInput {
    #[serde(default = "version")]
    pub v: u32,
    pub run_id: RunId,
    pub head: TranscriptHead,
    pub outbox: Outbox,
    pub status: RunStatus,
    pub phase: Phase,
    /// The final message, when it did not travel: the terminal event's text is read from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_ref: Option<BlobRef>,
    /// On the last record of a successful run: the final message joins the session.
    #[serde(default)]
    pub closes_session_turn: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordOutput {
    #[serde(default = "version")]
    pub v: u32,
    pub head: TranscriptHead,
}

/// Input of the `settle_plan` activity: did a turn whose activity did not report get its answer?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettlePlanInput {
    #[serde(default = "version")]
    pub v: u32,
    pub run_id: RunId,
    pub turn: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettlePlanOutput {
    #[serde(default = "version")]
    pub v: u32,
    /// The journalled answer. Without one the turn is given up, and an answer that comes later is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<PlanActivityOutput>,
}

/// Input of the `settle` activity: what became of a call whose activity did not report?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettleInput {
    #[serde(default = "version")]
    pub v: u32,
    pub run_id: RunId,
    pub tool_call_id: CallId,
    pub dispatch: u32,
    pub inline_limit: u64,
}

/// What the call's journal says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum SettleOutput {
    /// It finished; only the report was lost.
    Finished { output: Box<ToolOutput> },
    /// It never began and, being fenced off now, never will.
    NeverStarted,
    /// The call started; how it ended is unknown.
    Unknown,
}
