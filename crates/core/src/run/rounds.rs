//! Calls of several rounds: a tool asks a person for input, or works on elsewhere and is asked again.
//!
//! A round is one execution of the tool. What it needs for the next one is in the run's state, so a call goes on after
//! any crash, and waiting for a person holds no connection and no worker.

use std::collections::BTreeMap;

use super::{CallState, Run};
use crate::{
    awaits::{AwaitKind, AwaitView, ExpiryOutcome, NewAwait},
    canonical::CanonicalJson,
    envelope::{
        CallStatus, Continuation, InputAction, InputRequest, InputResponse, Resumption, ToolError, ToolErrorKind,
    },
    ids::CallId,
    schema::ResultCheck,
    time::Timestamp,
};

/// The most rounds of one call. A peer that never ends must not keep a run for ever.
const MAX_ROUNDS: u32 = 1_000;

impl Run {
    /// A round ended and the call is not over.
    pub(super) fn continue_call(&mut self, call: &CallId, continuation: Continuation, now: Timestamp) {
        let stopped = self.state.outcome.is_some() || self.state.finalize.is_some();
        let Some(slot) = self.state.slot(call) else { return };
        let round = slot.round() + 1;
        let failure = if stopped {
            Some((CallStatus::Cancelled, unfinished()))
        } else if round > MAX_ROUNDS {
            let message = format!("the tool did not finish within {MAX_ROUNDS} rounds");
            Some((CallStatus::Failed, ToolError::new(ToolErrorKind::Timeout, message)))
        } else {
            None
        };
        if let Some((status, error)) = failure {
            self.conclude_without_result(call, status, error, now);
            return self.settle_if_done(now);
        }
        slot.resumption = Some(Resumption {
            round,
            state: continuation.state,
            responses: BTreeMap::new(),
            repeatable: continuation.repeatable,
        });
        if continuation.inputs.is_empty() {
            slot.state = CallState::Ready;
        } else {
            let new = NewAwait {
                kind: AwaitKind::Input,
                title: Some(format!("{} asks", slot.request.name)),
                prompt: continuation.inputs.iter().map(|input| input.prompt.as_str()).collect::<Vec<_>>().join("\n"),
                calls: vec![super::planning::awaited(&slot.request)],
                questions: Vec::new(),
                inputs: continuation.inputs,
                expires_in: None,
                on_expiry: ExpiryOutcome::Replan,
                default_answer: None,
                roles: Vec::new(),
                four_eyes: false,
                edit: false,
            };
            let await_id = self.open_await(new, now);
            if let Some(slot) = self.state.slot(call) {
                slot.state = CallState::Asking { await_id };
            }
        }
        self.state.sync_clock(now);
    }

    /// The person answered: the call's next round may start.
    pub(super) fn resume_calls(&mut self, item: &AwaitView, responses: &BTreeMap<String, InputResponse>) {
        for call in &item.calls {
            let Some(slot) = self.state.slot(&call.tool_call_id) else { continue };
            if let Some(resumption) = &mut slot.resumption {
                resumption.responses.clone_from(responses);
                slot.state = CallState::Ready;
            }
        }
    }
}

/// The error of a call that had begun when its run ended or reached a limit.
pub(super) fn unfinished() -> ToolError {
    ToolError::new(ToolErrorKind::Cancelled, "not finished: the run ended or reached a limit while the call went on")
}

/// The same response to every input.
pub(super) fn respond_to_all(item: &AwaitView, action: InputAction) -> BTreeMap<String, InputResponse> {
    let response = InputResponse { action, content: None };
    item.inputs.iter().map(|input| (input.key.clone(), response.clone())).collect()
}

/// Reads a person's text as the responses that the await's inputs want.
///
/// One input: the text itself if it has no schema; a JSON object otherwise, or the bare value of an object with one
/// property. Several inputs: a JSON object with the content of each input under its key.
pub fn read_inputs(item: &AwaitView, text: &str) -> Result<BTreeMap<String, InputResponse>, String> {
    let accept = |content: CanonicalJson| InputResponse { action: InputAction::Accept, content: Some(content) };
    if let [input] = item.inputs.as_slice() {
        return Ok(BTreeMap::from([(input.key.clone(), accept(read_input(input, text)?))]));
    }
    let keys = || item.inputs.iter().map(|input| input.key.as_str()).collect::<Vec<_>>().join(", ");
    let Ok(serde_json::Value::Object(mut given)) = serde_json::from_str(text) else {
        return Err(format!("answer with a JSON object that has the fields {}", keys()));
    };
    let mut responses = BTreeMap::new();
    for input in &item.inputs {
        let Some(value) = given.remove(&input.key) else { return Err(format!("{} is missing", input.key)) };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        responses.insert(input.key.clone(), accept(read_input(input, &text)?));
    }
    match given.keys().next() {
        Some(unknown) => Err(format!("{unknown} is not asked for; the fields are {}", keys())),
        None => Ok(responses),
    }
}

fn read_input(input: &InputRequest, text: &str) -> Result<CanonicalJson, String> {
    let Some(schema) = &input.schema else { return Ok(serde_json::Value::from(text).into()) };
    let check = ResultCheck::of(schema);
    let parsed = serde_json::from_str::<serde_json::Value>(text).ok();
    if let Some(value) = parsed.as_ref().filter(|value| value.is_object()) {
        check.apply(value)?;
        return Ok(value.clone().into());
    }
    let properties = schema.get("properties").and_then(serde_json::Value::as_object);
    let Some(name) = properties.filter(|properties| properties.len() == 1).and_then(|only| only.keys().next()) else {
        let fields = properties.map(|all| all.keys().cloned().collect::<Vec<_>>().join(", ")).unwrap_or_default();
        return Err(format!("answer with a JSON object that has the fields {fields}"));
    };
    // The bare value of the only field: as text if that fits, else as the JSON it may be.
    let as_field = |value: serde_json::Value| serde_json::json!({ name: value });
    let plain = as_field(serde_json::Value::from(text));
    let refused = match check.apply(&plain) {
        Ok(()) => return Ok(plain.into()),
        Err(refused) => refused,
    };
    match parsed.map(as_field) {
        Some(value) => check.apply(&value).map(|()| value.into()),
        None => Err(refused),
    }
}
