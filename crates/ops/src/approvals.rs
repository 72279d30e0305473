//! Why a call ran, waited or was refused: what the rules say of it now, and what was decided then.

use windlass_core::{
    agent::AgentDefinition,
    approval::{ApprovalRule, ApprovalStep, CallApproval, CallFacts, explain, is_configured, layers},
    canonical::CanonicalJson,
    cost::Cost,
    envelope::Actor,
    event::EventBody,
    ids::{CallId, ToolName},
    message::{Content, Message},
};
use windlass_store::{GrantFilter, RunRow, system_clock};

use super::{OpsError, RunOps};

impl RunOps {
    /// The approval of a call of this run; `None` if the run has no such call. `rules` are the operator's for all agents.
    /// Where the operator's agents are not known, the run's own is taken as configured.
    pub async fn explain_call(
        &self,
        run: &RunRow,
        call: &CallId,
        rules: &[ApprovalRule],
        agents: Option<&[AgentDefinition]>,
    ) -> Result<Option<CallApproval>, OpsError> {
        let Some(digest) = &run.agent_digest else { return Ok(None) };
        let Some(definition) = self.store.blob(digest).await? else { return Ok(None) };
        let Ok(definition) = definition.decode::<AgentDefinition>() else { return Ok(None) };
        let messages = self.store.transcript(&run.id, run.head).await?;
        let Some((name, args)) = messages.iter().rev().find_map(|message| call_in(message, call)) else {
            return Ok(None);
        };
        let Some(tool) = definition.tool(&name) else { return Ok(None) };
        let agent = match agents {
            Some(agents) => agents.iter().find(|agent| agent.id == definition.id),
            None => Some(&definition),
        };
        let (starter, recorded) = self.recorded(run, call).await?;
        let session = run.session.as_ref();
        let value = args.to_value();
        let facts = CallFacts {
            tool: &tool.name,
            tags: &tool.tags,
            source: tool.source.kind(),
            args: Some(&value),
            args_digest: args.digest(),
            confirmation: tool.confirmation.as_ref(),
            starter: starter.as_ref(),
            cost: Cost::ZERO,
            run: &run.id,
            session,
            agent: &definition.id,
            configured: agent.is_some_and(|own| is_configured(own, &definition, tool)),
        };
        let own = self.store.rules_for(&run.workspace, &run.id, session).await?;
        let layers = layers(rules, &definition, agent, own);
        let filter = GrantFilter { revoked: true, ..GrantFilter::for_call(&run.workspace, &facts) };
        let grants = self.store.grants(filter).await?;
        let now = explain(&facts, &layers, &grants, system_clock()());
        Ok(Some(CallApproval { call: call.clone(), recorded, now }))
    }

    /// Who started the run, and what its log says of the call.
    async fn recorded(&self, run: &RunRow, call: &CallId) -> Result<(Option<Actor>, Vec<ApprovalStep>), OpsError> {
        let (mut starter, mut steps, mut asked) = (None, Vec::new(), None);
        for event in self.store.events(&run.id, 0, u32::MAX).await? {
            match event.body() {
                Ok(EventBody::Started { started_by, .. }) => starter = started_by,
                Ok(EventBody::ApprovalDecided { tool_use_id, outcome, reason, .. }) if tool_use_id == *call => {
                    steps.push(ApprovalStep::Decided { outcome, reason });
                }
                Ok(EventBody::AwaitOpened { item }) if item.calls.iter().any(|asked| asked.tool_call_id == *call) => {
                    asked = Some(item.id.clone());
                    steps.push(ApprovalStep::Asked { await_id: item.id });
                }
                Ok(EventBody::AwaitClosed { await_id, outcome, actor, .. }) if Some(&await_id) == asked.as_ref() => {
                    steps.push(ApprovalStep::Answered { await_id, outcome, actor });
                }
                _ => {}
            }
        }
        Ok((starter, steps))
    }
}

fn call_in(message: &Message, call: &CallId) -> Option<(ToolName, CanonicalJson)> {
    message.parts.iter().find_map(|part| match &part.content {
        Content::ToolUse { id, name, input } if id == call => Some((name.clone(), input.clone())),
        _ => None,
    })
}
