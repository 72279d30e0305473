//! Agents as tools: the input of a child run, and its result.

use super::{CallState, Run};
use crate::{
    body::Body,
    canonical::Digest,
    envelope::{
        BlobRef, BudgetCeiling, CallStatus, PolicyOverrides, RunInput, RunLink, RunOutput, ToolCallOutput, ToolError,
        ToolErrorKind, ToolOutput, ToolRequest,
    },
    event::EventBody,
    ids::{AgentId, CallId, RunId, ToolName},
    message::Message,
    time::Timestamp,
};

/// A child run to start now.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildOrder {
    pub call: CallId,
    pub input: RunInput,
}

/// How a child run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildReport {
    Finished(Box<RunOutput>),
    Failed { message: String },
    Cancelled,
}

impl Run {
    pub(super) fn child_input(
        &self,
        request: &ToolRequest,
        agent_id: &AgentId,
        agent_digest: Digest,
        max_tool_calls: Option<u32>,
        siblings: u64,
        now: Timestamp,
    ) -> RunInput {
        let parent = &self.input;
        let run_id = RunId::new(format!("{}/{}", parent.run_id, request.tool_call_id));
        let spent = &self.state.usage;
        let ceiling = BudgetCeiling {
            time_budget_ms: self.state.clock.remaining(self.state.policy.time_budget, now),
            max_tool_calls,
            // Agents that are called in one turn share what is left.
            max_cost_usd: self
                .state
                .policy
                .max_cost
                .map(|max| max.saturating_sub(spent.cost_usd.unwrap_or_default()).divided(siblings)),
            max_tokens: self
                .state
                .policy
                .max_tokens
                .map(|max| max.saturating_sub(spent.total_tokens) / siblings.max(1)),
        };
        // If the parent forbids interrupts, its children do too. Otherwise the child's own policy decides.
        let policy = PolicyOverrides {
            interrupts_allowed: (!self.state.policy.interrupts_allowed).then_some(false),
            ..PolicyOverrides::default()
        };
        RunInput {
            workspace: parent.workspace.clone(),
            session_id: parent.session_id.clone(),
            turn_id: parent.turn_id.clone(),
            parent_tool_call_id: Some(request.tool_call_id.clone()),
            parent_run_id: Some(parent.run_id.clone()),
            parent_agent_id: Some(parent.agent_id.clone()),
            tool: Some(request.name.clone()),
            tool_args: request.inline_args().cloned(),
            tool_args_ref: request.args().and_then(|args| args.stored()),
            labels: parent.labels.clone(),
            metadata: parent.metadata.clone(),
            policy: Some(policy),
            budget_ceiling: Some(ceiling),
            agent_digest: Some(agent_digest),
            started_by: parent.started_by.clone(),
            depth: parent.depth + 1,
            tuning: parent.tuning.clone(),
            installation: parent.installation.clone(),
            ..RunInput::new(agent_id.clone(), run_id)
        }
    }

    pub(super) fn link_child(&mut self, request: &ToolRequest, child: &RunInput) {
        self.announce_call(request);
        self.outgoing.event(EventBody::ChildRunLinked {
            tool_use_id: request.tool_call_id.clone(),
            name: request.name.clone(),
            child_run_id: child.run_id.clone(),
            child_agent_id: child.agent_id.clone(),
        });
    }

    /// The event of a call that the workflow itself starts. The tool activity writes those of its calls.
    pub(super) fn announce_call(&mut self, request: &ToolRequest) {
        self.outgoing.event(EventBody::ToolCall {
            tool_use_id: request.tool_call_id.clone(),
            name: request.name.clone(),
            input: request.inline_args().cloned(),
            digest: request.payload_digest,
            turn: self.state.turn.saturating_sub(1),
        });
    }

    /// A child run ended: its unused calls return to the parent, and its calls, time and tokens are charged.
    pub fn child_finished(&mut self, call: &CallId, report: ChildReport, now: Timestamp) {
        let Some(slot) = self.state.slot(call) else { return };
        let name = slot.request.name.clone();
        let CallState::Running { child: Some(lease) } = slot.state else { return };
        self.state.lent = self.state.lent.saturating_sub(lease.lent_calls);
        if !matches!(report, ChildReport::Finished(_)) {
            // The number of calls it made is unknown. The cap holds only if all of them count.
            self.state.executed += lease.lent_calls;
        }
        let output = match report {
            ChildReport::Finished(child) => {
                self.state.executed += child.tool_calls;
                let own = self.state.clock.used(now).saturating_sub(lease.used_before);
                self.state.clock.charge(child.active_ms.saturating_sub(own));
                if let Some(usage) = &child.usage {
                    self.state.usage.add(usage);
                }
                self.child_output(name, call, *child)
            }
            ChildReport::Failed { message } => {
                let error = ToolError::new(ToolErrorKind::ToolFailed, format!("the agent could not answer: {message}"));
                ToolCallOutput::without_result(name, call.clone(), CallStatus::Failed, error)
            }
            ChildReport::Cancelled => {
                let error = ToolError::new(ToolErrorKind::Cancelled, "the agent was cancelled");
                ToolCallOutput::without_result(name, call.clone(), CallStatus::Cancelled, error)
            }
        };
        self.conclude(call, output, true, now);
        self.settle_if_done(now);
    }

    fn child_output(&self, name: ToolName, call: &CallId, child: RunOutput) -> ToolCallOutput {
        let answer = answer_body(child.final_message.as_ref(), child.final_ref);
        let output = ToolOutput::new(CallStatus::Ok).with_result(&answer);
        let mut output = ToolCallOutput::from_output(name, call.clone(), output);
        output.children_count = child.tool_calls;
        output.run_link = Some(RunLink {
            run_id: child.run_id,
            agent_id: child.agent_id,
            parent_run_id: self.input.run_id.clone(),
            parent_tool_call_id: call.clone(),
            transcript: Some(child.transcript),
        });
        output
    }
}

/// A run's answer as the result of the call that started it: its text, or a reference to the stored message if it is above the inline limit.
pub(super) fn answer_body(message: Option<&Message>, stored: Option<BlobRef>) -> Body {
    match (message, stored) {
        (None, Some(stored)) => Body::Stored(stored),
        (message, _) => {
            Body::Inline(message.map(Message::plain_text).map_or(serde_json::Value::Null, Into::into).into())
        }
    }
}
