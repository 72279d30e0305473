//! What the approval rules and grants say of the calls of a turn. A rule that is changed, or a grant that is revoked,
//! before the model has answered applies to the calls of that answer.

use std::sync::Arc;

use temporalio_sdk::activities::ActivityError;
use windlass_core::{
    agent::AgentDefinition,
    approval::{
        ApprovalDecision, ApprovalLayer, ApprovalOutcome, CallFacts, DecisionReason, decide, is_configured, layers,
    },
    canonical::{CanonicalJson, Digest},
    cost::Cost,
    envelope::{Actor, ToolInput},
    event::EventBody,
    ids::{RunId, SessionId, ToolName, WorkspaceId},
};
use windlass_store::{GrantFilter, system_clock};

use crate::{RunActivities, failures};

/// The run whose calls are decided.
#[derive(Clone, Copy)]
pub(crate) struct CallingRun<'a> {
    pub(crate) workspace: &'a WorkspaceId,
    pub(crate) run: &'a RunId,
    pub(crate) session: Option<&'a SessionId>,
    /// What the run has spent so far.
    pub(crate) spent: Cost,
}

/// The rules for one run, and what they are applied to.
pub(crate) struct Approvals<'a> {
    activities: &'a RunActivities,
    definition: &'a AgentDefinition,
    caller: CallingRun<'a>,
    layers: Vec<ApprovalLayer>,
    /// The operator's agent of this id.
    operators: Option<Arc<AgentDefinition>>,
    /// Read if a rule needs it.
    starter: Option<Actor>,
}

impl RunActivities {
    /// `None` if neither a rule nor a grant can apply to this agent's calls. `own` are the rules of the run and its session.
    pub(crate) async fn approvals<'a>(
        &'a self,
        definition: &'a AgentDefinition,
        caller: CallingRun<'a>,
        own: Vec<ApprovalLayer>,
    ) -> Result<Option<Approvals<'a>>, ActivityError> {
        let of_operator = self.agents.approvals();
        let asks = definition.tools.iter().any(|tool| tool.confirmation.is_some());
        if of_operator.is_empty() && definition.approvals.is_empty() && own.is_empty() && !asks {
            return Ok(None);
        }
        let operators = self.agents.get(&definition.id).cloned();
        let who_matters =
            !own.is_empty() || of_operator.iter().chain(&definition.approvals).any(|rule| rule.caller.is_some());
        let starter = if who_matters { self.starter(caller.run).await? } else { None };
        let layers = layers(of_operator, definition, operators.as_deref(), own);
        Ok(Some(Approvals { activities: self, definition, caller, layers, operators, starter }))
    }

    /// Who started the run, from the first event of its log.
    async fn starter(&self, run: &RunId) -> Result<Option<Actor>, ActivityError> {
        let events = self.store.events(run, 0, 1).await.map_err(|error| failures::store(&error))?;
        Ok(events.first().and_then(|event| match event.body() {
            Ok(EventBody::Started { started_by, .. }) => started_by,
            _ => None,
        }))
    }

    /// Whether a rule denies a call whose arguments a person wrote. Asking again would ask the person who wrote them.
    pub(crate) async fn denies(
        &self,
        definition: &AgentDefinition,
        input: &ToolInput,
        args: &CanonicalJson,
    ) -> Result<bool, ActivityError> {
        // What the run has spent is not known here: a rule with `cost_at_least` was applied to the model's arguments.
        let caller = CallingRun {
            workspace: &input.workspace,
            run: &input.run_id,
            session: input.session_id.as_ref(),
            spent: Cost::ZERO,
        };
        let own = self.store.rules_for(caller.workspace, caller.run, caller.session).await;
        let own = own.map_err(|error| failures::store(&error))?;
        let Some(approvals) = self.approvals(definition, caller, own).await? else { return Ok(false) };
        let decision = approvals.decide(&input.tool_name, input.payload_digest, &args.to_value()).await?;
        Ok(decision.is_some_and(|decision| decision.outcome == ApprovalOutcome::Deny))
    }
}

impl Approvals<'_> {
    /// The decision about one call, from all of its arguments. `None` if only the tool's own confirmation has a say.
    pub(crate) async fn decide(
        &self,
        name: &ToolName,
        digest: Digest,
        args: &serde_json::Value,
    ) -> Result<Option<Box<ApprovalDecision>>, ActivityError> {
        let Some(tool) = self.definition.tool(name) else { return Ok(None) };
        let CallingRun { workspace, run, session, spent } = self.caller;
        let mut facts = CallFacts {
            tool: &tool.name,
            tags: &tool.tags,
            source: tool.source.kind(),
            args: Some(args),
            args_digest: digest,
            confirmation: tool.confirmation.as_ref(),
            starter: self.starter.as_ref(),
            cost: spent,
            run,
            session,
            agent: &self.definition.id,
            configured: self.operators.as_ref().is_some_and(|own| is_configured(own, self.definition, tool)),
        };
        let now = system_clock()();
        let mut decision = decide(&facts, &self.layers, &[], now);
        if decision.outcome == ApprovalOutcome::Ask {
            let filter = GrantFilter::for_call(workspace, &facts);
            let grants = self.activities.store.grants(filter).await.map_err(|error| failures::store(&error))?;
            if !grants.is_empty() {
                let starter = self.activities.starter(run).await?;
                facts.starter = starter.as_ref();
                decision = decide(&facts, &self.layers, &grants, now);
            }
        }
        let by_rules = self.layers.iter().any(|layer| !layer.rules.is_empty());
        let own = matches!(decision.reason, DecisionReason::Confirmation | DecisionReason::Default);
        Ok((by_rules || !own).then(|| Box::new(decision)))
    }
}
