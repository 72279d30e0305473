//! Turning a turn of a script into a model's answer.

use serde_json::Value;
use windlass_core::{
    canonical::{self, Digest},
    envelope::{AwaitRequest, Question, QuestionOption, TokenUsage, ToolRequest},
    ids::CallId,
    message::Part,
};

use super::grammar::{Await, Call, Failure, QuestionSpec, Turn, Usage};
use crate::{ModelError, ModelRequest, RequestedCall};

impl Failure {
    pub(super) fn to_model_error(&self) -> ModelError {
        let mut error = ModelError::new(self.error_class, self.error.clone());
        error.retryable = self.retryable.unwrap_or(error.retryable);
        error.api_status = self.api_status;
        error.api_code = self.api_code.clone();
        error
    }
}

/// Numbers the calls of one answer, so that a replayed turn asks for the same calls.
struct CallIds {
    call_index: u32,
    next: u32,
}

impl CallIds {
    fn next(&mut self) -> CallId {
        let id = CallId::new(format!("call_{}_{}", self.call_index, self.next));
        self.next += 1;
        id
    }
}

/// What a turn asks for: its own calls first, then its awaits.
pub(super) fn requests(turn: &Turn, call_index: u32) -> (Vec<RequestedCall>, Vec<AwaitRequest>) {
    let mut ids = CallIds { call_index, next: 0 };
    let requested =
        |call: &Call| RequestedCall { id: Some(ids.next()), name: call.name.clone(), args: call.args.clone() };
    let calls = turn.tool_calls.iter().map(requested).collect();
    let awaits = turn.awaits.iter().map(|item| await_request(item, &mut ids)).collect();
    (calls, awaits)
}

fn await_request(item: &Await, ids: &mut CallIds) -> AwaitRequest {
    match item.clone() {
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
            tool_call_id: ids.next(),
            tool_name,
            title,
            questions: questions.into_iter().map(question).collect(),
            expires_in_ms,
            on_expiry,
        },
        Await::ExternalTools { calls, expires_in_ms, on_expiry } => AwaitRequest::ExternalTools {
            calls: calls.into_iter().map(|call| tool_request(call, ids.next())).collect(),
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

fn tool_request(call: Call, id: CallId) -> ToolRequest {
    let bytes = canonical::to_bytes(&call.args);
    ToolRequest {
        tool_call_id: id,
        name: call.name,
        payload: Some(call.args),
        payload_bytes: bytes.len() as u64,
        payload_digest: Digest::of_bytes(&bytes),
        payload_ref: None,
        invalid: None,
    }
}

/// Why a turn that does not say so stops: a call somebody must answer, or the end of the answer.
pub(super) fn default_stop(turn: &Turn) -> &'static str {
    let asks_for_calls = |item: &Await| !matches!(item, Await::Clarification { .. });
    if turn.tool_calls.is_empty() && !turn.awaits.iter().any(asks_for_calls) { "end_turn" } else { "tool_use" }
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
    }
}

/// Tokens as a real model would roughly count them: one for every four characters begun, of what is read and written.
pub(super) fn estimated(request: &ModelRequest, output: &[&str], calls: &[RequestedCall], model: String) -> TokenUsage {
    let tokens = |characters: usize| characters.div_ceil(4) as u64;
    let read: usize = request.messages.iter().flat_map(|message| &message.parts).map(characters).sum();
    let written: usize = output.iter().map(|text| text.chars().count()).sum();
    let called: usize = calls.iter().map(|call| json_characters(&call.args)).sum();
    let input_tokens = tokens(request.system.chars().count() + read);
    let output_tokens = tokens(written + called);
    TokenUsage {
        model: Some(model),
        input_tokens,
        output_tokens,
        total_tokens: input_tokens + output_tokens,
        ..TokenUsage::default()
    }
}

/// Files count nothing: their price has nothing to do with their length.
fn characters(part: &Part) -> usize {
    match part {
        Part::Text { text } | Part::Thinking { text, .. } | Part::Citations { text, .. } => text.chars().count(),
        Part::ToolUse { input, .. } => json_characters(input),
        Part::ToolResult { content, .. } => json_characters(content),
        Part::Image { .. } | Part::Document { .. } | Part::CacheCheckpoint => 0,
    }
}

fn json_characters(value: &Value) -> usize {
    value.to_string().chars().count()
}
