//! One call of the model: what it is asked, and what an attempt that failed leaves in the log.

use std::{sync::Arc, time::Instant};

use temporalio_sdk::activities::ActivityError;
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::AgentDefinition,
    context,
    envelope::{PlanActivityInput, RunContext, TokenUsage},
    event::{Event, EventBody, NewEvent},
    ids::RunId,
    message::Message,
    secret::SecretRef,
    time::Millis,
};
use windlass_models::{
    ErrorClass, ModelError, ModelRequest, ModelResponse, Resolved, ToolChoice, ToolDeclaration, tool_tokens,
};

use crate::{RunActivities, definitions::Prepared, deltas::DeltaLog, failures};

/// One attempt of a turn.
pub(crate) struct Attempt<'a> {
    pub(crate) prepared: &'a Prepared,
    pub(crate) input: &'a PlanActivityInput,
    /// From 1.
    pub(crate) number: u32,
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: CancellationToken,
}

/// An answer, and the model that gave it.
pub(crate) struct Answered {
    pub(crate) response: ModelResponse,
    /// Without aliases.
    pub(crate) model_id: String,
}

impl RunActivities {
    pub(crate) async fn call_model(
        &self,
        attempt: Attempt<'_>,
        messages: Arc<Vec<Message>>,
    ) -> Result<Answered, ActivityError> {
        let Attempt { prepared, input, .. } = attempt;
        let definition = &prepared.definition;
        let asked = input.run_context.model_id.as_ref().unwrap_or(&definition.model);
        let resolved =
            self.models.resolve(asked).map_err(|error| failures::permanent("model_unknown", error.to_string()))?;
        let request = self.request(&attempt, &resolved, messages).await?;
        let spent = self.spent(&input.run_id, input.turn, attempt.number).await?;
        let mut deltas = DeltaLog::new(self.log(&input.run_id), input.turn, attempt.number);
        let answered = resolved.model.respond(request, &mut deltas).await;
        let (text, logged) = deltas.finish().await;
        match answered {
            Ok(mut response) => {
                logged.map_err(|error| failures::store(&error))?;
                priced(&mut response.usage, &resolved);
                response.usage.add(&spent);
                Ok(Answered { response, model_id: resolved.id() })
            }
            Err(error) => Err(self.attempt_failed(&attempt, &resolved, error, spent, text).await),
        }
    }

    async fn request(
        &self,
        attempt: &Attempt<'_>,
        resolved: &Resolved,
        messages: Arc<Vec<Message>>,
    ) -> Result<ModelRequest, ActivityError> {
        let Attempt { prepared, input, .. } = attempt;
        let definition = &prepared.definition;
        let RunContext { workspace, session_id, .. } = &input.run_context;
        let secrets = self.secrets(workspace, &input.run_id, session_id.as_ref());
        let key = self.own_credentials(definition, resolved).or(resolved.key.as_ref());
        let (system, tools) = (system_text(definition, input), prepared.offered(input.offered_tools.as_deref()));
        let messages = self.fitted(attempt, resolved, &system, &tools, messages).await?;
        Ok(ModelRequest {
            run_id: input.run_id.clone(),
            call_index: input.turn,
            attempt: attempt.number,
            provider: resolved.provider.clone(),
            model: resolved.name.clone(),
            spec: Arc::clone(&resolved.spec),
            system,
            messages: self.with_files(messages).await?,
            tools,
            reasoning_level: definition.reasoning_level_at(input.turn),
            output_schema: definition.output_schema.clone(),
            parameters: definition.parameters.over(&resolved.spec.parameters),
            credentials: self.credentials(&secrets, key).await?,
            tool_choice: if input.finalize.is_some() { ToolChoice::None } else { ToolChoice::Auto },
            deadline: attempt.deadline,
            cancel: attempt.cancel.clone(),
        })
    }

    /// An agent's key is for the provider of its own model. A run that asks another provider does not send it there.
    fn own_credentials<'a>(&self, definition: &'a AgentDefinition, resolved: &Resolved) -> Option<&'a SecretRef> {
        let own = self.models.resolve(&definition.model).ok()?;
        definition.credentials.as_ref().filter(|_| own.provider == resolved.provider)
    }

    /// The conversation within the model's context window. What is left out is logged.
    async fn fitted(
        &self,
        attempt: &Attempt<'_>,
        resolved: &Resolved,
        system: &str,
        tools: &[ToolDeclaration],
        messages: Arc<Vec<Message>>,
    ) -> Result<Arc<Vec<Message>>, ActivityError> {
        let Some(window) = resolved.spec.context_window else { return Ok(messages) };
        let parameters = attempt.prepared.definition.parameters.over(&resolved.spec.parameters);
        let answer = parameters.max_output_tokens.or(resolved.spec.max_output_tokens).unwrap_or(0);
        let fixed = context::text_tokens(system) + tool_tokens(tools);
        // An answer of the full length would leave little room in some models; few answers have it.
        let reserved = u64::from(answer).min(window / 4) + fixed;
        let limit = window.saturating_sub(reserved);
        let trimmed = context::fit(&messages, limit)
            .map_err(|error| failures::permanent(ErrorClass::ContextWindow.as_str(), error.to_string()))?;
        let Some(trimmed) = trimmed else { return Ok(messages) };
        let turn = attempt.input.turn;
        let event = EventBody::ContextTrimmed {
            turn,
            results: trimmed.results,
            files: trimmed.files,
            tokens_before: trimmed.tokens_before + reserved,
            tokens_after: trimmed.tokens_after + reserved,
            context_window: window,
        };
        self.append(&attempt.input.run_id, NewEvent::new(format!("turn/{turn}/trimmed"), event)).await?;
        Ok(Arc::new(trimmed.messages))
    }

    async fn append(&self, run: &RunId, event: NewEvent) -> Result<(), ActivityError> {
        self.store.append_events(run, vec![event]).await.map(|_| ()).map_err(|error| failures::store(&error))
    }

    /// Logs why an attempt failed, and returns the failure for Temporal.
    async fn attempt_failed(
        &self,
        attempt: &Attempt<'_>,
        resolved: &Resolved,
        mut error: ModelError,
        spent: TokenUsage,
        text: String,
    ) -> ActivityError {
        let mut usage = error.usage.take().map(|usage| *usage);
        if let Some(usage) = &mut usage {
            priced(usage, resolved);
        }
        let mut total = spent;
        total.add(&usage.clone().unwrap_or_default());
        let input = attempt.input;
        // A cancelled call is not a failure of the model.
        if error.class != ErrorClass::Cancelled {
            let event = EventBody::AttemptFailed {
                turn: input.turn,
                attempt: attempt.number,
                model: resolved.id(),
                error_class: error.class.as_str().to_owned(),
                error: error.message.clone(),
                retryable: error.retryable,
                retry_after_ms: error
                    .retry_after
                    .map(|wait| Millis(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))),
                api_status: error.api_status,
                usage,
            };
            let event = NewEvent::new(failed_key(input.turn, attempt.number), event);
            // The failure itself is more important than its entry in the log.
            self.append(&input.run_id, event).await.ok();
        }
        failures::model(&error, text, total)
    }

    /// What the earlier attempts of this turn cost.
    async fn spent(&self, run: &RunId, turn: u32, attempt: u32) -> Result<TokenUsage, ActivityError> {
        let mut spent = TokenUsage::default();
        if attempt == 1 {
            return Ok(spent);
        }
        const PAGE: u32 = 500;
        let row = self.store.run(run).await.map_err(|error| failures::store(&error))?;
        let mut end = row.map_or(0, |row| row.last_seq);
        let first_key = failed_key(turn, 1);
        // Backwards: the attempts of the turn are at the end of the log, and a log may be long.
        while end > 0 {
            let start = end.saturating_sub(u64::from(PAGE));
            let page = self.store.events(run, start, PAGE).await.map_err(|error| failures::store(&error))?;
            let page: Vec<Event> = page.into_iter().filter(|event| event.seq <= end).collect();
            for event in &page {
                if let Ok(EventBody::AttemptFailed { turn: of, usage: Some(usage), .. }) = event.body()
                    && of == turn
                {
                    spent.add(&usage);
                }
            }
            if page.iter().any(|event| event.key == first_key || event.kind == "assistant_message") {
                break;
            }
            end = start;
        }
        Ok(spent)
    }
}

fn failed_key(turn: u32, attempt: u32) -> String {
    format!("turn/{turn}/{attempt}/failed")
}

fn priced(usage: &mut TokenUsage, resolved: &Resolved) {
    usage.cost_usd = resolved.spec.prices.map(|prices| prices.cost(usage));
}

fn system_text(definition: &AgentDefinition, input: &PlanActivityInput) -> String {
    match &input.finalize {
        Some(end) => format!("{}\n\n{}", definition.system_prompt, end.message).trim_start().to_owned(),
        None => definition.system_prompt.clone(),
    }
}
