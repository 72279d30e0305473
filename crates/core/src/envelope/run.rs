//! Starting a run and what it returns.

use std::collections::BTreeMap;

use super::{
    Actor, BlobRef, Extra, FinalizeReason, Labels, PlannerNote, TokenUsage, ToolCallOutput, TranscriptHead, version,
};
use crate::{
    body::Body,
    canonical::{CanonicalJson, Digest},
    cost::Cost,
    ids::{AgentId, CallId, InstallationId, RunId, SessionId, ToolName, WorkspaceId},
    message::Message,
    run::{Carry, Phase, RunStatus},
    stop::StopReason,
    time::Millis,
};
use serde::{Deserialize, Serialize};

/// What a run workflow starts from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunInput {
    #[serde(default = "version")]
    pub v: u32,
    pub agent_id: AgentId,
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_agent_id: Option<AgentId>,
    /// Set when the run is an agent used as a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_args: Option<CanonicalJson>,
    /// Arguments too large to travel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_args_ref: Option<BlobRef>,
    /// New messages, when they are small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// New messages that are too large to travel: a JSON array of messages in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_ref: Option<BlobRef>,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub metadata: Extra,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_options: Option<WorkflowOptions>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyOverrides>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guards: Option<GuardOverrides>,
    /// What the parent has left. Whatever the agent or the policy says, this run gets no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_ceiling: Option<BudgetCeiling>,
    /// The exact agent definition, by content; without it the worker looks `agentId` up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_digest: Option<Digest>,
    /// Replaces the agent's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// Who started the run; for a child, who started the run at the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_by: Option<Actor>,
    /// How deep this run is below the run a person started.
    #[serde(default)]
    pub depth: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<Tuning>,
    /// Whose run it is: only workers with this installation's store can execute it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installation: Option<InstallationId>,
    /// What the run knew when it continued as new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carry: Option<Box<Carry>>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl RunInput {
    pub fn new(agent_id: AgentId, run_id: RunId) -> Self {
        Self {
            v: version(),
            agent_id,
            run_id,
            workspace: None,
            session_id: None,
            turn_id: None,
            parent_tool_call_id: None,
            parent_run_id: None,
            parent_agent_id: None,
            tool: None,
            tool_args: None,
            tool_args_ref: None,
            messages: Vec::new(),
            messages_ref: None,
            labels: Labels::new(),
            metadata: Extra::new(),
            workflow_options: None,
            policy: None,
            guards: None,
            budget_ceiling: None,
            agent_digest: None,
            model_id: None,
            started_by: None,
            depth: 0,
            tuning: None,
            installation: None,
            carry: None,
            extra: Extra::new(),
        }
    }

    /// The arguments of the call that this run answers.
    pub fn args(&self) -> Option<Body> {
        Body::from_fields(self.tool_args.as_ref(), self.tool_args_ref)
    }

    pub fn workspace(&self) -> WorkspaceId {
        self.workspace.clone().unwrap_or_else(|| WorkspaceId::new("default"))
    }
}

/// The part of a parent's budget that a child may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetCeiling {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_budget_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<Cost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

/// Engine options of a start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkflowOptions {
    #[serde(skip_serializing_if = "Extra::is_empty")]
    pub memo: Extra,
    #[serde(skip_serializing_if = "Extra::is_empty")]
    pub search_attributes: Extra,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryPolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_interval_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_coefficient: Option<f64>,
}

/// Per-run limits. Absent inherits from the agent, a value replaces.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyOverrides {
    /// How many calls of one turn are executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_turn_max_tool_calls: Option<u32>,
    /// Only this tool may be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restrict_to_tool: Option<ToolName>,
    /// A tool needs at least one of these tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tags: Option<Vec<String>>,
    /// A tool must have none of these tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied_tags: Option<Vec<String>>,
    /// How many calls the run and its children execute in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// In how many turns the model may call tools; the next one is its last and has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_turns: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_consecutive_failed_tool_calls: Option<u32>,
    /// What the model calls of the run and its children may cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<Cost>,
    /// How many tokens the run and its children may use, input and output together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Working time; waiting and pausing do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_budget_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_timeout_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_timeout_ms: Option<Millis>,
    /// By tool name or by `prefix*`; the exact name wins, then the longest prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_tool_timeout_ms: Option<BTreeMap<String, Millis>>,
    /// How long the last, tools-disabled answer may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalizer_grace_ms: Option<Millis>,
    /// Whether pause and steer are obeyed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupts_allowed: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Per-run settings of the loop guard and the tool budgets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GuardOverrides {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_detection: Option<LoopDetection>,
    /// Laid over the defaults by tool name; an empty map clears them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_budgets: Option<BTreeMap<String, ToolBudget>>,
}

/// `false`, or thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LoopDetection {
    /// Only `false` is meaningful: it switches the guard off.
    Enabled(bool),
    Thresholds(LoopThresholds),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoopThresholds {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_threshold: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard_cutoff_threshold: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolBudget {
    pub max_calls: u32,
}

/// How the workflow itself behaves. Part of the input because it decides which commands the workflow issues.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tuning {
    /// The largest body that travels inside an envelope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline_limit_bytes: Option<u64>,
    /// An activity that is silent for this long is taken for dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout_ms: Option<Millis>,
    /// The history length at which the run continues as new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_as_new_events: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_retry_interval_ms: Option<Millis>,
}

impl Tuning {
    /// The inline limit of new runs. Each start records it, so that a run keeps the limit it was started with. A larger body
    /// is stored once and referred to; a smaller one costs less inside the envelope than a reference and its row.
    pub const INLINE_LIMIT_OF_NEW_RUNS: u64 = 512;
    /// The inline limit of runs whose input does not have one.
    const DEFAULT_INLINE_LIMIT: u64 = 2048;
    const DEFAULT_HEARTBEAT: Millis = Millis::from_secs(20);
    const DEFAULT_CONTINUE_AS_NEW: u32 = 4000;
    const DEFAULT_PLAN_ATTEMPTS: u32 = 6;
    const DEFAULT_PLAN_RETRY: Millis = Millis::from_secs(1);

    pub fn inline_limit(&self) -> u64 {
        self.inline_limit_bytes.unwrap_or(Self::DEFAULT_INLINE_LIMIT)
    }

    /// Up to which size the answer of a run is inline. It is in history twice in a whole run, and people read it with Temporal's
    /// tools, so it is not stored before it has the size that is stored in runs without a limit. A smaller limit holds for
    /// answers, too.
    pub fn answer_limit(inline_limit: u64) -> u64 {
        if inline_limit < Self::INLINE_LIMIT_OF_NEW_RUNS {
            inline_limit
        } else {
            inline_limit.max(Self::DEFAULT_INLINE_LIMIT)
        }
    }

    pub fn heartbeat_timeout(&self) -> Millis {
        self.heartbeat_timeout_ms.unwrap_or(Self::DEFAULT_HEARTBEAT)
    }

    pub fn continue_as_new_events(&self) -> u32 {
        self.continue_as_new_events.unwrap_or(Self::DEFAULT_CONTINUE_AS_NEW)
    }

    pub fn plan_max_attempts(&self) -> u32 {
        self.plan_max_attempts.unwrap_or(Self::DEFAULT_PLAN_ATTEMPTS)
    }

    pub fn plan_retry_interval(&self) -> Millis {
        self.plan_retry_interval_ms.unwrap_or(Self::DEFAULT_PLAN_RETRY)
    }
}

/// What a finished run returns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunOutput {
    #[serde(default = "version")]
    pub v: u32,
    pub agent_id: AgentId,
    pub run_id: RunId,
    /// The answer, when it is small enough to travel.
    #[serde(rename = "final", default, skip_serializing_if = "Option::is_none")]
    pub final_message: Option<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_ref: Option<BlobRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_tool_result: Option<ToolCallOutput>,
    /// The last tool results; `toolCalls` counts all of them and the event log has them all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_events: Vec<ToolCallOutput>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<PlannerNote>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<StopReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalized: Option<FinalizeReason>,
    #[serde(default)]
    pub turns: u32,
    /// Calls executed by the run and its children.
    #[serde(default)]
    pub tool_calls: u32,
    /// Working time used; waiting and pausing are not in it.
    #[serde(default)]
    pub active_ms: Millis,
    #[serde(default)]
    pub transcript: TranscriptHead,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The answer to the `status` query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStatusView {
    #[serde(default = "version")]
    pub v: u32,
    pub run_id: RunId,
    pub agent_id: AgentId,
    pub status: RunStatus,
    pub phase: Phase,
    pub turn: u32,
    pub tool_calls: u32,
    pub pending_awaits: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<Millis>,
    pub transcript: TranscriptHead,
    pub usage: TokenUsage,
    /// Commits to everything the run decides from; a refused answer leaves it unchanged.
    pub state_digest: Digest,
}
