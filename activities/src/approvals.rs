//! What the approval rules say of the calls of a turn. The rules are read when the turn is planned, so a rule that an
//! operator changes applies to the next turn.

use temporalio_sdk::activities::ActivityError;
use windlass_core::{
    agent::AgentDefinition,
    approval::{ApprovalDecision, ApprovalLayer, CallFacts, decide, layers},
    cost::Cost,
    envelope::{Actor, PlanActivityInput, ToolRequest},
    event::EventBody,
    ids::RunId,
    time::Timestamp,
};

use crate::{RunActivities, failures};

/// The rules for one run, and what they are applied to.
pub(crate) struct Approvals<'a> {
    definition: &'a AgentDefinition,
    input: &'a PlanActivityInput,
    layers: [ApprovalLayer; 2],
    starter: Option<Actor>,
}

impl RunActivities {
    /// `None` if no rule applies to this agent: its tools' own confirmations decide.
    pub(crate) async fn approvals<'a>(
        &self,
        definition: &'a AgentDefinition,
        input: &'a PlanActivityInput,
    ) -> Result<Option<Approvals<'a>>, ActivityError> {
        let workspace = self.agents.approvals();
        if workspace.is_empty() && definition.approvals.is_empty() {
            return Ok(None);
        }
        let configured = self.agents.get(&definition.id).is_some_and(|own| own.approvals == definition.approvals);
        let layers = layers(workspace, &definition.approvals, configured);
        let by_caller = layers.iter().flat_map(|layer| &layer.rules).any(|rule| rule.caller.is_some());
        let starter = if by_caller { self.starter(&input.run_id).await? } else { None };
        Ok(Some(Approvals { definition, input, layers, starter }))
    }

    /// Who started the run, from the first event of its log.
    async fn starter(&self, run: &RunId) -> Result<Option<Actor>, ActivityError> {
        let events = self.store.events(run, 0, 1).await.map_err(|error| failures::store(&error))?;
        Ok(events.first().and_then(|event| match event.body() {
            Ok(EventBody::Started { started_by, .. }) => started_by,
            _ => None,
        }))
    }
}

impl Approvals<'_> {
    /// The decision about one call, from all of its arguments.
    pub(crate) fn decide(&self, request: &ToolRequest, args: &serde_json::Value) -> Option<Box<ApprovalDecision>> {
        let tool = self.definition.tool(&request.name)?;
        let facts = CallFacts {
            tool: &tool.name,
            tags: &tool.tags,
            source: tool.source.kind(),
            args: Some(args),
            args_digest: request.payload_digest,
            confirmation: tool.confirmation.as_ref(),
            starter: self.starter.as_ref(),
            cost: self.input.spent_usd.unwrap_or(Cost::ZERO),
            run: &self.input.run_id,
            session: self.input.run_context.session_id.as_ref(),
            agent: &self.definition.id,
        };
        // No grants are kept yet, so the time decides nothing.
        Some(Box::new(decide(&facts, &self.layers, &[], Timestamp::default())))
    }
}
