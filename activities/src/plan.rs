//! `windlass.plan`: one turn of the model. The model is not called again for a response that is in the journal.

use std::time::{Duration, Instant};

use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::AgentDefinition,
    approval::ApprovalLayer,
    body::Body,
    canonical::CanonicalJson,
    cost::Cost,
    envelope::{
        BlobRef, Extra, FinalFacts, PlanActivityInput, PlanActivityOutput, PlanResult, RunContext, SettlePlanInput,
        SettlePlanOutput, TranscriptHead, Tuning, VERSION,
    },
    event::{EnforcementMechanism, EventBody, NewEvent},
    ids::RunId,
    message::{Content, FallbackMark, Message, Role, plain_text},
    schema,
    stop::{StopOutcome, StopReason},
};
use windlass_models::ModelResponse;
use windlass_store::{PlanBegin, PlanBeginning, PlanCommit};

use crate::{
    RunActivities,
    approvals::CallingRun,
    conversations::Conversation,
    deadline,
    definitions::Prepared,
    failures,
    heartbeat::with_heartbeat,
    model_call::{Answered, Attempt},
    turn::{Turn, summary},
};

/// Rules that were read before a model answered are read again if it took longer than this. So a rule that is set meanwhile
/// applies, and a model that answers at once costs no read.
const RULES_AGE: Duration = Duration::from_millis(50);

impl RunActivities {
    pub(crate) async fn plan_turn(
        &self,
        ctx: ActivityContext,
        input: PlanActivityInput,
    ) -> Result<PlanActivityOutput, ActivityError> {
        let attempt = ctx.info().attempt;
        let deadline = deadline::of(&ctx);
        with_heartbeat(&ctx, |cancel| self.ask(input, attempt, deadline, cancel)).await
    }

    async fn ask(
        &self,
        mut input: PlanActivityInput,
        attempt: u32,
        deadline: Option<Instant>,
        cancel: CancellationToken,
    ) -> Result<PlanActivityOutput, ActivityError> {
        let prepared = self.definition(input.agent_digest).await?;
        let known = self.conversations.take(&input.run_id, input.head);
        let begin = self.beginning(&mut input, attempt).await?;
        let news = begin.messages.clone();
        // Messages up to the head are immutable, so they are read while the turn starts.
        let (begun, before) =
            tokio::join!(self.store.begin_plan(begin), self.conversation(&input.run_id, input.head, known));
        let (head, mut rules) = match begun.map_err(|error| failures::store(&error))? {
            PlanBeginning::Journalled(plan) => return Ok(plan.output),
            PlanBeginning::Ask { head, rules } => (head, rules),
        };
        let mut conversation = before?;
        conversation.extend(news);
        let attempt = Attempt { prepared: &prepared, input: &input, number: attempt, deadline, cancel };
        let asked = Instant::now();
        let answered = self.call_model(attempt, conversation.messages()).await?;
        if asked.elapsed() > RULES_AGE {
            let RunContext { workspace, session_id, .. } = &input.run_context;
            let read = self.store.rules_for(workspace, &input.run_id, session_id.as_ref()).await;
            rules = read.map_err(|error| failures::store(&error))?;
        }
        self.commit(&prepared, &input, (head, conversation), rules, answered).await
    }

    /// The conversation up to its head, from the cache or from the store.
    async fn conversation(
        &self,
        run: &RunId,
        head: TranscriptHead,
        known: Option<Conversation>,
    ) -> Result<Conversation, ActivityError> {
        if let Some(known) = known {
            return Ok(known);
        }
        let mut conversation = Conversation::default();
        conversation.extend(self.store.transcript(run, head).await.map_err(|error| failures::store(&error))?);
        Ok(conversation)
    }

    pub(crate) async fn settle_turn(&self, input: SettlePlanInput) -> Result<SettlePlanOutput, ActivityError> {
        let settled = self.store.settle_plan(&input.run_id, input.turn).await;
        let settled = settled.map_err(|error| failures::store(&error))?;
        Ok(SettlePlanOutput { v: VERSION, output: settled.map(|plan| plan.output) })
    }

    /// The messages since the last turn. They are written before the model is called.
    async fn beginning(&self, input: &mut PlanActivityInput, attempt: u32) -> Result<PlanBegin, ActivityError> {
        let mut messages = Vec::new();
        let results = std::mem::take(&mut input.tool_outputs);
        if !results.is_empty() {
            messages.push(self.results_message(results).await?);
        }
        let mut outbox = std::mem::take(&mut input.outbox);
        let mut events = std::mem::take(&mut outbox.events);
        self.announce(&input.run_id, &events).await?;
        messages.extend(self.messages(outbox).await?);
        if attempt > 1 {
            let restarted = EventBody::TurnRestarted { turn: input.turn, attempt };
            events.push(NewEvent::new(format!("turn/{}/{attempt}/restarted", input.turn), restarted));
        }
        let RunContext { workspace, session_id: session, .. } = input.run_context.clone();
        let (run, turn, head) = (input.run_id.clone(), input.turn, input.head);
        Ok(PlanBegin { run, workspace, session, turn, head, messages, events })
    }

    async fn commit(
        &self,
        prepared: &Prepared,
        input: &PlanActivityInput,
        (head, mut conversation): (TranscriptHead, Conversation),
        rules: Vec<ApprovalLayer>,
        Answered { response, model_id }: Answered,
    ) -> Result<PlanActivityOutput, ActivityError> {
        let turn = input.turn;
        let ModelResponse { parts, awaits, stop, usage, response_id, enforced } = response;
        let calls_tools = parts.iter().any(|part| matches!(part.content, Content::ToolUse { .. }));
        let approvals = match calls_tools {
            true => self.approvals(&prepared.definition, calling_run(input), rules).await?,
            false => None,
        };
        let Turn { mut parts, calls, awaits } =
            self.read_turn(prepared, turn, (parts, awaits), input.inline_limit, approvals.as_ref()).await?;
        self.detach_files(&mut parts, input.inline_limit).await?;
        let text = plain_text(&parts);
        let listed = parts.iter().filter_map(summary).collect();
        let mut message = Message::new(Role::Assistant, parts);
        message.meta.extend(response_id.map(|id| ("responseId".to_owned(), id.into())));
        if let RunContext { model_id: Some(model), primary_model_id: Some(primary), .. } = &input.run_context {
            message.meta.extend(FallbackMark::new(model, primary).to_meta());
        }
        let rejected = matches!(stop.outcome(), StopOutcome::Reject(_));
        let is_final = input.finalize.is_some() || rejected || (calls.is_empty() && awaits.is_empty());
        let final_response = match is_final {
            true => Some(final_facts(&prepared.definition, &message, &text, &stop, input.inline_limit)?),
            false => None,
        };

        let message_event = EventBody::AssistantMessage {
            text,
            turn,
            finish_reason: Some(stop.clone()),
            tool_calls: listed,
            model: model_id,
        };
        let events = vec![
            NewEvent::new(format!("turn/{turn}/message"), message_event),
            NewEvent::new(format!("turn/{turn}/usage"), EventBody::Usage { turn, usage: usage.clone() }),
        ];
        let output = PlanActivityOutput {
            v: VERSION,
            result: PlanResult { tool_calls: calls, awaits, final_response, ..PlanResult::default() },
            transcript: Vec::new(),
            usage,
            head,
            finish_reason: Some(stop),
            enforced: Some(enforced).filter(|enforced| *enforced != EnforcementMechanism::None),
            extra: Extra::new(),
        };
        // A run that ends does not need its conversation any more, and an await may take long.
        let goes_on = !is_final && output.result.awaits.is_empty();
        if goes_on {
            conversation.extend([message.clone()]);
        }
        let commit = PlanCommit { run: input.run_id.clone(), turn, head, message, output, events };
        let journalled = self.store.commit_plan(commit).await.map_err(|error| failures::store(&error))?;
        if goes_on {
            // If another attempt's answer was journalled first, the head differs and this entry is never found.
            self.conversations.keep(input.run_id.clone(), journalled.output.head, conversation);
        }
        Ok(journalled.output)
    }
}

fn calling_run(input: &PlanActivityInput) -> CallingRun<'_> {
    let context = &input.run_context;
    CallingRun {
        workspace: &context.workspace,
        run: &input.run_id,
        session: context.session_id.as_ref(),
        spent: input.spent_usd.unwrap_or(Cost::ZERO),
    }
}

/// The facts about a message that may be the run's answer.
fn final_facts(
    definition: &AgentDefinition,
    message: &Message,
    text: &str,
    stop: &StopReason,
    inline_limit: u64,
) -> Result<FinalFacts, ActivityError> {
    let json =
        CanonicalJson::of(message).map_err(|error| failures::permanent("message_unreadable", error.to_string()))?;
    let message_ref = BlobRef::of(&json);
    // The message is stored with the turn in any case.
    let (body, _) = Body::fit(json, Tuning::answer_limit(inline_limit));
    Ok(FinalFacts {
        message: body.inline().map(|_| message.clone()),
        message_ref,
        flaw: stop.known_flaw(),
        schema_fit: definition.output_schema.as_ref().map(|output| schema::fit(&output.schema, text)),
    })
}
