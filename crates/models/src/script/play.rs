//! Turning a turn of a script into a model's answer.

use windlass_core::{
    body::Body,
    canonical::CanonicalJson,
    envelope::{AwaitRequest, Question, QuestionOption, TokenUsage, ToolRequest},
    ids::CallId,
    message::{Content, Part},
    stop::StopReason,
};

use super::grammar::{Await, Call, Failure, QuestionSpec, Turn, Usage};
use crate::{ModelError, ModelRequest};

impl Failure {
    pub(super) fn to_model_error(&self) -> ModelError {
        let mut error = ModelError::new(self.error_class, self.error.clone());
        error.retryable = self.retryable.unwrap_or(error.retryable);
        error.api_status = self.api_status;
        error.api_code.clone_from(&self.api_code);
        error
    }
}

/// A part to play, and for a text the pieces it is streamed in.
#[derive(Debug, PartialEq)]
pub(super) struct Played {
    pub(super) part: Part,
    pub(super) pieces: Vec<String>,
}

impl Turn {
    /// The answer part by part, placeholders not filled in yet.
    pub(super) fn script(&self) -> Vec<Played> {
        if let Some(parts) = &self.parts {
            return parts.iter().cloned().map(played).collect();
        }
        let thinking = |text: &String| Content::Thinking { text: text.clone(), signature: None, redacted: None };
        let mut script: Vec<Played> = self.thinking.iter().map(|text| played(thinking(text).into())).collect();
        let pieces: Vec<String> = self.deltas.iter().flatten().chain(&self.text).cloned().collect();
        if !pieces.is_empty() {
            script.push(Played { part: Part::text(pieces.concat()), pieces });
        }
        // The run gives calls their ids.
        let call = |call: &Call| Part::tool_use(CallId::default(), call.name.clone(), call.args.clone());
        script.extend(self.tool_calls.iter().map(|it| played(call(it))));
        script
    }
}

fn played(part: Part) -> Played {
    let pieces = match &part.content {
        Content::Text { text } => vec![text.clone()],
        _ => Vec::new(),
    };
    Played { part, pieces }
}

/// What a turn wants from the outside world. The run gives its calls their ids.
pub(super) fn awaits(turn: &Turn) -> Vec<AwaitRequest> {
    turn.awaits.iter().cloned().map(await_request).collect()
}

fn await_request(item: Await) -> AwaitRequest {
    match item {
        Await::Clarification {
            question,
            missing_fields,
            restrict_to_tool,
            example_input,
            clarifying_prompt,
            default_answer,
            expires_in_ms,
            on_expiry,
        } => AwaitRequest::Clarification {
            question,
            missing_fields,
            restrict_to_tool,
            example_input,
            clarifying_prompt,
            default_answer,
            expires_in_ms,
            on_expiry,
        },
        Await::Questions { tool_name, title, questions, expires_in_ms, on_expiry } => AwaitRequest::Questions {
            tool_call_id: CallId::default(),
            tool_name,
            title,
            questions: questions.into_iter().map(question).collect(),
            expires_in_ms,
            on_expiry,
        },
        Await::ExternalTools { calls, expires_in_ms, on_expiry } => AwaitRequest::ExternalTools {
            calls: calls.into_iter().map(tool_request).collect(),
            expires_in_ms,
            on_expiry,
        },
    }
}

fn question(spec: QuestionSpec) -> Question {
    let options =
        spec.options.into_iter().map(|option| QuestionOption { id: option.id, label: option.label }).collect();
    Question { id: spec.id, prompt: spec.prompt, options, allow_multiple: spec.allow_multiple }
}

fn tool_request(call: Call) -> ToolRequest {
    ToolRequest::new(CallId::default(), call.name, &Body::Inline(call.args))
}

/// Why a turn that does not say so stops: a call that wants a result, or the end of the answer.
pub(super) fn default_stop(turn: &Turn, parts: &[Part]) -> StopReason {
    let asks_for_calls = |item: &Await| !matches!(item, Await::Clarification { .. });
    let calls = parts.iter().any(|part| matches!(part.content, Content::ToolUse { .. }));
    if calls || turn.awaits.iter().any(asks_for_calls) { StopReason::ToolUse } else { StopReason::EndTurn }
}

/// The tokens a turn reports.
pub(super) fn reported(usage: &Usage, model: String) -> TokenUsage {
    TokenUsage {
        model: Some(model),
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        total_tokens: usage.total_tokens.unwrap_or(usage.input_tokens + usage.output_tokens),
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
        reasoning_tokens: usage.reasoning_tokens,
        cost_usd: None,
    }
}

/// Characters of one token, roughly, for every real model.
pub(super) const TOKEN_CHARACTERS: usize = 4;

/// Tokens as a real model would roughly count them, of what is read and written.
pub(super) fn estimated(request: &ModelRequest, parts: &[Part], model: String) -> TokenUsage {
    let tokens = |characters: usize| characters.div_ceil(TOKEN_CHARACTERS) as u64;
    let read: usize = request.messages.iter().flat_map(|message| &message.parts).map(characters).sum();
    let written: usize = parts.iter().map(characters).sum();
    let input_tokens = tokens(request.system.chars().count() + read);
    let output_tokens = tokens(written);
    TokenUsage {
        model: Some(model),
        input_tokens,
        output_tokens,
        total_tokens: input_tokens + output_tokens,
        ..TokenUsage::default()
    }
}

/// Files count nothing: their price does not follow from their length.
fn characters(part: &Part) -> usize {
    let json = |json: &CanonicalJson| json.as_str().chars().count();
    match &part.content {
        Content::Text { text } | Content::Thinking { text, .. } | Content::Citations { text, .. } => {
            text.chars().count()
        }
        Content::ToolUse { input, .. } => json(input),
        Content::ToolResult { content, parts, .. } => json(content) + parts.iter().map(characters).sum::<usize>(),
        Content::ProviderTool { input, output, .. } => input.iter().chain(output).map(json).sum(),
        Content::Image { .. } | Content::Document { .. } | Content::CacheCheckpoint | Content::Other { .. } => 0,
    }
}
