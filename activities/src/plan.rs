//! `windlass.plan`: one turn of the model. A response that was journalled is never asked for again.

use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::AgentDefinition,
    canonical::{self, Digest},
    envelope::{
        AnswerFlaw, AwaitRequest, BlobRef, Extra, FinalFacts, PlanActivityInput, PlanActivityOutput, PlanResult,
        SettlePlanInput, SettlePlanOutput, ToolRequest, TranscriptHead, VERSION,
    },
    event::{CallSummary, EventBody, NewEvent},
    ids::{CallId, RunId},
    message::{Message, Part, Role},
    schema,
};
use windlass_models::{ModelRequest, ModelResponse, RequestedCall, ToolChoice};
use windlass_store::{PlanBegin, PlanBeginning, PlanCommit};

use crate::{
    RunActivities, conversations::Conversation, definitions::Prepared, deltas::DeltaLog, failures,
    heartbeat::with_heartbeat,
};

impl RunActivities {
    pub(crate) async fn plan_turn(
        &self,
        ctx: ActivityContext,
        input: PlanActivityInput,
    ) -> Result<PlanActivityOutput, ActivityError> {
        let attempt = ctx.info().attempt;
        with_heartbeat(&ctx, |cancel| self.ask(input, attempt, cancel)).await
    }

    async fn ask(
        &self,
        mut input: PlanActivityInput,
        attempt: u32,
        cancel: CancellationToken,
    ) -> Result<PlanActivityOutput, ActivityError> {
        let prepared = self.definition(input.agent_digest).await?;
        let known = self.conversations.take(&input.run_id, input.head);
        let begin = self.beginning(&mut input, attempt).await?;
        let news = begin.messages.clone();
        // What is said up to the head does not change any more, so it is read while the turn begins.
        let (begun, before) =
            tokio::join!(self.store.begin_plan(begin), self.conversation(&input.run_id, input.head, known));
        let head = match begun.map_err(|error| failures::store(&error))? {
            PlanBeginning::Journalled(plan) => return Ok(plan.output),
            PlanBeginning::Ask(head) => head,
        };
        let mut conversation = before?;
        conversation.extend(news);
        let model_id = input.run_context.model_id.clone().unwrap_or_else(|| prepared.definition.model.clone());
        let (model, name) =
            self.models.resolve(&model_id).map_err(|error| failures::permanent("model_unknown", error.to_string()))?;
        let request = ModelRequest {
            run_id: input.run_id.clone(),
            call_index: input.turn,
            attempt,
            model: name,
            system: system_text(&prepared.definition, &input),
            messages: conversation.messages(),
            tools: prepared.offered(input.offered_tools.as_deref()),
            reasoning_level: prepared.definition.reasoning_level,
            output_schema: prepared.definition.output_schema.clone(),
            tool_choice: if input.finalize.is_some() { ToolChoice::None } else { ToolChoice::Auto },
            cancel,
        };
        let mut deltas = DeltaLog::new(self.store.clone(), input.run_id.clone(), input.turn, attempt);
        let answered = model.respond(request, &mut deltas).await;
        let (said, logged) = deltas.finish().await;
        let response = answered.map_err(|error| failures::model(&error, said))?;
        logged.map_err(|error| failures::store(&error))?;
        self.commit(&prepared, &input, (head, conversation), &model_id, response).await
    }

    /// The conversation up to its head: as this worker knows it, or else as the store has it.
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

    /// What happened since the last turn, which is written before the model is asked.
    async fn beginning(&self, input: &mut PlanActivityInput, attempt: u32) -> Result<PlanBegin, ActivityError> {
        let mut messages = Vec::new();
        let results = std::mem::take(&mut input.tool_outputs);
        if !results.is_empty() {
            messages.push(self.results_message(results).await?);
        }
        let mut outbox = std::mem::take(&mut input.outbox);
        let mut events = std::mem::take(&mut outbox.events);
        messages.extend(self.messages(outbox).await?);
        if attempt > 1 {
            let restarted = EventBody::TurnRestarted { turn: input.turn, attempt };
            events.push(NewEvent::new(format!("turn/{}/{attempt}/restarted", input.turn), restarted));
        }
        Ok(PlanBegin { run: input.run_id.clone(), turn: input.turn, head: input.head, messages, events })
    }

    async fn commit(
        &self,
        prepared: &Prepared,
        input: &PlanActivityInput,
        (head, mut conversation): (TranscriptHead, Conversation),
        model_id: &str,
        response: ModelResponse,
    ) -> Result<PlanActivityOutput, ActivityError> {
        let turn = input.turn;
        let mut numbered = Numbering { turn, next: 0 };
        let mut parts = Vec::new();
        if let Some(text) = &response.thinking {
            parts.push(Part::Thinking { text: text.clone(), signature: None, redacted: None });
        }
        if !response.text.is_empty() {
            parts.push(Part::Text { text: response.text.clone() });
        }
        let mut tool_calls = Vec::new();
        for call in response.tool_calls {
            let call = self.request(prepared, call, numbered.id(), input.inline_limit, &mut parts).await?;
            tool_calls.push(call);
        }
        let awaits = number_awaits(response.awaits, &mut numbered, &mut parts);
        let message = Message::new(Role::Assistant, parts);
        let message_ref = blob_ref(&message)?;
        let is_final = input.finalize.is_some() || (tool_calls.is_empty() && awaits.is_empty());
        let fits = message_ref.bytes <= input.inline_limit;
        let final_response = is_final.then(|| FinalFacts {
            message: fits.then(|| message.clone()),
            message_ref,
            flaw: AnswerFlaw::of_stop(&response.stop),
            schema_fit: prepared
                .definition
                .output_schema
                .as_ref()
                .map(|output| schema::fit(&output.schema, &response.text)),
        });

        let mut events = vec![NewEvent::new(
            format!("turn/{turn}/message"),
            EventBody::AssistantMessage {
                text: response.text,
                turn,
                finish_reason: Some(response.stop.clone()),
                tool_calls: message.parts.iter().filter_map(summary).collect(),
                model: model_id.to_owned(),
            },
        )];
        for (index, note) in response.notes.iter().enumerate() {
            let body = EventBody::PlannerNote { text: note.text.clone() };
            events.push(NewEvent::new(format!("turn/{turn}/note/{index}"), body));
        }
        let usage = EventBody::Usage { turn, usage: response.usage.clone() };
        events.push(NewEvent::new(format!("turn/{turn}/usage"), usage));

        let output = PlanActivityOutput {
            v: VERSION,
            result: PlanResult { tool_calls, awaits, final_response, notes: response.notes, retry_hint: None },
            transcript: Vec::new(),
            usage: response.usage,
            head,
            finish_reason: Some(response.stop),
            extra: Extra::new(),
        };
        // Nobody needs the conversation of a run that ends, and waiting for people takes long.
        let goes_on = !is_final && output.result.awaits.is_empty();
        if goes_on {
            conversation.extend([message.clone()]);
        }
        let commit = PlanCommit { run: input.run_id.clone(), turn, head, message, output, events };
        let journalled = self.store.commit_plan(commit).await.map_err(|error| failures::store(&error))?;
        if goes_on {
            // If another attempt's answer was journalled first, its head is another one and this is never found.
            self.conversations.keep(input.run_id.clone(), journalled.output.head, conversation);
        }
        Ok(journalled.output)
    }

    /// A call as the workflow sees it: arguments coerced and checked, and only as much of them as may travel.
    async fn request(
        &self,
        prepared: &Prepared,
        call: RequestedCall,
        id: CallId,
        inline_limit: u64,
        parts: &mut Vec<Part>,
    ) -> Result<ToolRequest, ActivityError> {
        let (args, invalid) = match prepared.check(&call.name, call.args.clone()) {
            Ok(args) => (args, None),
            Err(hint) => (call.args, Some(*hint)),
        };
        let bytes = canonical::to_bytes(&args);
        let payload_digest = Digest::of_bytes(&bytes);
        let payload_bytes = bytes.len() as u64;
        let fits = payload_bytes <= inline_limit;
        let payload_ref = if fits {
            None
        } else {
            Some(self.store.put_blob(args.clone()).await.map_err(|error| failures::store(&error))?)
        };
        parts.push(Part::ToolUse { id: id.clone(), name: call.name.clone(), input: args.clone() });
        Ok(ToolRequest {
            tool_call_id: id,
            name: call.name,
            payload: fits.then_some(args),
            payload_bytes,
            payload_digest,
            payload_ref,
            invalid,
        })
    }
}

/// Call ids are ours, so that they are unique within the run and the same on every attempt.
struct Numbering {
    turn: u32,
    next: u32,
}

impl Numbering {
    fn id(&mut self) -> CallId {
        let id = CallId::new(format!("call-{}-{}", self.turn, self.next));
        self.next += 1;
        id
    }
}

/// Awaits that stand for calls get their place in the assistant's message like any other call.
fn number_awaits(awaits: Vec<AwaitRequest>, numbering: &mut Numbering, parts: &mut Vec<Part>) -> Vec<AwaitRequest> {
    let numbered = awaits.into_iter().map(|request| match request {
        AwaitRequest::Clarification { .. } => request,
        AwaitRequest::Questions { tool_name, title, questions, expires_in_ms, on_expiry, .. } => {
            let tool_call_id = numbering.id();
            let input = serde_json::json!({"title": title, "questions": questions});
            parts.push(Part::ToolUse { id: tool_call_id.clone(), name: tool_name.clone(), input });
            AwaitRequest::Questions { tool_call_id, tool_name, title, questions, expires_in_ms, on_expiry }
        }
        AwaitRequest::ExternalTools { mut calls, expires_in_ms, on_expiry } => {
            for call in &mut calls {
                call.tool_call_id = numbering.id();
                let input = call.payload.clone().unwrap_or_default();
                parts.push(Part::ToolUse { id: call.tool_call_id.clone(), name: call.name.clone(), input });
            }
            AwaitRequest::ExternalTools { calls, expires_in_ms, on_expiry }
        }
    });
    numbered.collect()
}

fn summary(part: &Part) -> Option<CallSummary> {
    /// Larger arguments stay out of the event; the transcript has them.
    const SHOWN: usize = 4096;
    match part {
        Part::ToolUse { id, name, input } => {
            let shown = (input.to_string().len() <= SHOWN).then(|| input.clone());
            Some(CallSummary { id: id.clone(), name: name.clone(), input: shown })
        }
        _ => None,
    }
}

fn blob_ref(message: &Message) -> Result<BlobRef, ActivityError> {
    let bytes =
        canonical::bytes_of(message).map_err(|error| failures::permanent("message_unreadable", error.to_string()))?;
    Ok(BlobRef { digest: Digest::of_bytes(&bytes), bytes: bytes.len() as u64 })
}

fn system_text(definition: &AgentDefinition, input: &PlanActivityInput) -> String {
    match &input.finalize {
        Some(end) => format!("{}\n\n{}", definition.system_prompt, end.message).trim_start().to_owned(),
        None => definition.system_prompt.clone(),
    }
}
