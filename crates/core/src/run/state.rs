//! The state of a run. Its size does not grow with the number of turns.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::{
    agent::{Enforcement, ToolTable},
    awaits::AwaitTable,
    canonical::Digest,
    clock::ActiveClock,
    envelope::{
        Actor, FinalFacts, FinalizeReason, OpenOutput, PlannerNote, Resumption, TokenUsage, ToolCallOutput,
        ToolRequest, TranscriptHead,
    },
    event::EnforcementMechanism,
    guard::{BudgetGuard, LoopGuard},
    ids::{AwaitId, CallId},
    message::Message,
    policy::Policy,
    stop::StopReason,
    time::{Millis, Timestamp},
};

/// How many of the last tool results a run reports in its output.
const REPORTED_RESULTS: usize = 16;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunState {
    pub policy: Policy,
    pub tools: ToolTable,
    pub agent_digest: Digest,
    /// How many plans are done; also the number of the next one.
    pub turn: u32,
    pub head: TranscriptHead,
    pub clock: ActiveClock,
    /// A plan is in flight.
    pub planning: bool,
    /// Calls admitted for execution, by this run and its finished children.
    pub executed: u32,
    /// Calls lent to children that are still running.
    pub lent: u32,
    pub failure_streak: u32,
    pub loops: LoopGuard,
    pub budgets: BudgetGuard,
    pub awaits: AwaitTable,
    /// The calls of the current turn, in call order.
    pub batch: Vec<CallSlot>,
    /// The batch has been counted for the failure streak and the caps.
    pub settled: bool,
    /// Messages from users since the last plan. In the transcript they follow the results of the batch.
    #[serde(rename = "said")]
    pub pending_messages: Vec<Message>,
    /// How many of `pending_messages` are part of the plan in flight.
    #[serde(rename = "saidToPlanner")]
    pub messages_in_plan: usize,
    pub pause: Option<Pause>,
    pub finalize: Option<FinalizeReason>,
    pub usage: TokenUsage,
    pub last_answer: Option<FinalFacts>,
    pub finish_reason: Option<StopReason>,
    pub notes: Vec<PlannerNote>,
    pub reported: VecDeque<ToolCallOutput>,
    pub outcome: Option<Outcome>,
    /// Consecutive turns that the provider paused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub paused_turns: u32,
    /// Turns in which the model called tools.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tool_turns: u32,
    /// The run's model. Absent in runs of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// How the agent's output schema is enforced; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<Enforcement>,
    /// The models that are left to ask if the provider of `model_id` does not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    /// The model that the run began with, once it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_model_id: Option<String>,
    /// How the provider enforced the output schema in the last turn; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforced: Option<EnforcementMechanism>,
    /// The model was already told that its answer does not match the output schema.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repaired: bool,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// One call of the current turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallSlot {
    pub request: ToolRequest,
    pub state: CallState,
    /// For the next round of a call that was not over after the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumption: Option<Resumption>,
}

impl CallSlot {
    pub(super) fn new(request: ToolRequest, state: CallState) -> Self {
        Self { request, state, resumption: None }
    }

    /// The round that is next or under way, from 1.
    pub(super) fn round(&self) -> u32 {
        self.resumption.as_ref().map_or(1, |resumption| resumption.round)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum CallState {
    /// Waits for a person's approval.
    Confirming {
        await_id: AwaitId,
    },
    /// A call of the caller's own tool that is not handed out yet.
    Queued,
    /// Handed out; executed externally.
    External {
        await_id: AwaitId,
    },
    /// Began, and waits for a person's input.
    Asking {
        await_id: AwaitId,
    },
    /// May start.
    Ready,
    Running {
        child: Option<ChildLease>,
    },
    Done {
        output: Box<ToolCallOutput>,
    },
}

/// What a running child has on loan from its parent until it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildLease {
    pub lent_calls: u32,
    /// The parent's own working time when the child started.
    pub used_before: Millis,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    pub reason: String,
    pub requested_by: Actor,
    pub since: Timestamp,
}

impl RunState {
    pub(super) fn new(policy: Policy, opened: OpenOutput) -> Self {
        Self {
            policy,
            tools: opened.tools,
            agent_digest: opened.agent_digest,
            turn: 0,
            head: opened.head,
            clock: ActiveClock::default(),
            planning: false,
            executed: 0,
            lent: 0,
            failure_streak: 0,
            loops: LoopGuard::default(),
            budgets: BudgetGuard::default(),
            awaits: AwaitTable::default(),
            batch: Vec::new(),
            settled: false,
            pending_messages: Vec::new(),
            messages_in_plan: 0,
            pause: None,
            finalize: None,
            usage: TokenUsage::default(),
            last_answer: None,
            finish_reason: None,
            notes: Vec::new(),
            reported: VecDeque::new(),
            outcome: None,
            paused_turns: 0,
            tool_turns: 0,
            model_id: opened.model_id,
            enforcement: opened.enforcement,
            fallback: opened.fallback,
            primary_model_id: opened.primary_model_id,
            enforced: None,
            repaired: false,
        }
    }

    /// Whether every call of the current turn has its result.
    pub(super) fn batch_is_done(&self) -> bool {
        self.batch.iter().all(|slot| matches!(slot.state, CallState::Done { .. }))
    }

    /// Whether a plan, a tool or a child is in flight.
    pub fn is_working(&self) -> bool {
        self.planning || self.batch.iter().any(|slot| matches!(slot.state, CallState::Running { .. }))
    }

    /// The clock runs exactly while a plan or a tool activity is in flight. A child has its own clock.
    pub(super) fn sync_clock(&mut self, now: Timestamp) {
        let tools_run = self.batch.iter().any(|slot| matches!(slot.state, CallState::Running { child: None }));
        if self.planning || tools_run { self.clock.start(now) } else { self.clock.stop(now) }
    }

    pub fn calls_left(&self) -> Option<u32> {
        self.policy.max_tool_calls.map(|max| max.saturating_sub(self.executed + self.lent))
    }

    pub fn out_of_time(&self, now: Timestamp) -> bool {
        self.clock.remaining(self.policy.time_budget, now) == Some(Millis::ZERO)
    }

    pub(super) fn slot(&mut self, call: &CallId) -> Option<&mut CallSlot> {
        self.batch.iter_mut().find(|slot| slot.request.tool_call_id == *call)
    }

    /// The results of a settled batch, in call order.
    pub(super) fn batch_results(&self) -> impl Iterator<Item = &ToolCallOutput> {
        self.batch.iter().filter_map(|slot| match &slot.state {
            CallState::Done { output } => Some(&**output),
            _ => None,
        })
    }

    pub(super) fn report(&mut self, output: ToolCallOutput) {
        if self.reported.len() == REPORTED_RESULTS {
            self.reported.pop_front();
        }
        self.reported.push_back(output);
    }
}
