//! Calls that need input of a person: the questions as a [`Continuation`], and the answers in the next round.
//!
//! By 2026-07-28 the server returns its questions with a state of its own, and gets both the answers and the state when the
//! call is repeated. By 2025-11-25 it asks during the call, so the answers of all earlier rounds are kept and given again, in
//! the order in which it asked.

use std::collections::BTreeMap;

use rmcp::model::{
    CallToolRequestParams, ElicitRequestParams, ElicitResult, ElicitationAction, ErrorCode, ErrorData,
    InputRequest as ServerInput, InputRequiredResult,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass_core::{
    canonical::CanonicalJson,
    envelope::{Continuation, InputAction, InputRequest, InputResponse, Resumption, ToolErrorKind},
    schema::check_usable,
};

use super::failure;
use crate::ToolFailure;

/// The error by which a server of 2025-11-25 asks for pages to be visited before the call is made again.
const PAGES_REQUIRED: ErrorCode = ErrorCode(-32042);
/// What keys of such pages begin with.
const PAGE: &str = "page-";

/// What a call carries from round to round.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct State {
    /// The server's own, by 2026-07-28.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: Option<String>,
    /// The server asked during the call, by 2025-11-25.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    legacy: bool,
    /// What was answered to such questions, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    answered: Vec<InputResponse>,
    #[serde(skip_serializing_if = "Defaults::is_empty")]
    defaults: Defaults,
}

/// By the key of a question: what the form has in fields that the person leaves out.
pub(super) type Defaults = BTreeMap<String, Map<String, Value>>;

/// What earlier rounds of a call brought.
#[derive(Debug, Default)]
pub(super) struct Resumed {
    state: State,
    /// By 2026-07-28: the answers to the last round's questions.
    responses: Vec<(String, InputResponse)>,
    /// How many of the answered questions the server has asked again in this round.
    asked_again: usize,
}

/// The response with the defaults of the fields that it leaves out.
pub(super) fn completed(defaults: &Defaults, key: &str, response: &InputResponse) -> InputResponse {
    let mut response = response.clone();
    let (Some(defaults), Some(content)) = (defaults.get(key), &response.content) else { return response };
    if let Value::Object(mut fields) = content.to_value() {
        for (name, value) in defaults {
            fields.entry(name).or_insert_with(|| value.clone());
        }
        response.content = Some(Value::Object(fields).into());
    }
    response
}

impl Resumed {
    pub(super) fn of(resumption: Option<&Resumption>) -> Result<Self, ToolFailure> {
        let Some(resumption) = resumption else { return Ok(Self::default()) };
        let foreign =
            || ToolFailure::new(ToolErrorKind::Internal, "the state of the call is not one that an MCP call leaves");
        // Left to itself, serde would also take a list of values in the order of the fields.
        let is_object = resumption.state.as_str().starts_with('{');
        let state = if is_object { resumption.state.decode().ok() } else { None };
        let mut state: State = state.ok_or_else(foreign)?;
        let mut responses = Vec::new();
        if state.legacy {
            let pages = resumption.responses.iter().filter(|(key, _)| key.starts_with(PAGE));
            if pages.clone().any(|(_, response)| response.action != InputAction::Accept) {
                let message = "a person declined to visit the page that the tool needs to be visited first";
                return Err(ToolFailure::new(ToolErrorKind::Denied, message));
            }
            let key = legacy_key(state.answered.len());
            // Without an answer the server asks again.
            let answer = resumption.responses.get(&key).map(|response| completed(&state.defaults, &key, response));
            state.answered.extend(answer);
        } else {
            let complete = |(key, response): (&String, _)| (key.clone(), completed(&state.defaults, key, response));
            responses.extend(resumption.responses.iter().map(complete));
        }
        Ok(Self { state, responses, asked_again: 0 })
    }

    /// What a server of 2026-07-28 gets with the repeated call.
    pub(super) fn add_to(&self, params: &mut CallToolRequestParams) {
        params.request_state.clone_from(&self.state.request_state);
        if !self.responses.is_empty() {
            let responses = self.responses.iter().map(|(key, response)| (key.clone(), answer_value(response)));
            params.input_responses = Some(responses.collect());
        }
    }

    /// The answer to the next question that the server asks during the call, if it was answered before.
    pub(super) fn next_answer(&mut self) -> Option<ElicitResult> {
        let answer = self.state.answered.get(self.asked_again)?;
        self.asked_again += 1;
        Some(elicit_result(answer))
    }
}

/// A response as it is sent.
pub(super) fn answer_value(response: &InputResponse) -> Value {
    serde_json::to_value(elicit_result(response)).unwrap_or_default()
}

fn elicit_result(response: &InputResponse) -> ElicitResult {
    let action = match response.action {
        InputAction::Accept => ElicitationAction::Accept,
        InputAction::Decline => ElicitationAction::Decline,
        InputAction::Cancel => ElicitationAction::Cancel,
    };
    let mut result = ElicitResult::new(action);
    // The protocol has content only with an accepted question.
    if response.action == InputAction::Accept {
        result.content = response.content.as_ref().map(CanonicalJson::to_value);
    }
    result
}

/// The key of a question that was asked during a call, by the number of those before it.
fn legacy_key(before: usize) -> String {
    format!("question-{}", before + 1)
}

/// A server that returned its questions.
pub(super) fn required(required: InputRequiredResult) -> Result<Continuation, ToolFailure> {
    let state = State { request_state: required.request_state, ..State::default() };
    let questions = required.input_requests.unwrap_or_default().into_iter();
    let questions = questions.map(|(key, input)| of_server(key, input));
    continuation(state, questions.collect::<Result<_, _>>()?)
}

pub(super) fn of_server(key: String, input: ServerInput) -> Result<InputRequest, ToolFailure> {
    match input {
        ServerInput::Elicitation(asked) => question(key, &asked.params),
        ServerInput::CreateMessage(_) => Err(not_offered("sampling")),
        ServerInput::ListRoots(_) => Err(not_offered("roots")),
        _ => Err(not_offered("a kind of input")),
    }
}

/// A server that asks during a call.
pub(super) fn asked(asked: &ElicitRequestParams, resumed: Resumed) -> Result<Continuation, ToolFailure> {
    let state = State { legacy: true, answered: resumed.state.answered, ..State::default() };
    let question = question(legacy_key(state.answered.len()), asked)?;
    continuation(state, vec![question])
}

/// A server that needs pages to be visited first, if that is what the error says.
pub(super) fn pages_required(error: &ErrorData, resumed: &Resumed) -> Option<Result<Continuation, ToolFailure>> {
    let pages = error.data.as_ref().filter(|_| error.code == PAGES_REQUIRED)?.get("elicitations")?;
    let pages: Vec<ElicitRequestParams> =
        serde_json::from_value(pages.clone()).ok().filter(|pages: &Vec<_>| !pages.is_empty())?;
    let questions = pages.iter().enumerate().map(|(index, page)| question(format!("{PAGE}{}", index + 1), page));
    let state = State { legacy: true, answered: resumed.state.answered.clone(), ..State::default() };
    Some(questions.collect::<Result<_, _>>().and_then(|questions| continuation(state, questions)))
}

fn question(key: String, asked: &ElicitRequestParams) -> Result<InputRequest, ToolFailure> {
    match asked {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let schema: Value = json!(requested_schema);
            let most = usize::try_from(Continuation::MAX_BYTES).unwrap_or(usize::MAX);
            check_usable(&schema, most).map_err(|problem| {
                failure::failed(format!("the MCP server asks for input by a schema that cannot be used: {problem}"))
            })?;
            Ok(InputRequest { key, prompt: message.clone(), schema: Some(schema), url: None })
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            let opens = reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
            if !opens {
                return Err(failure::failed("the MCP server sends a person to an address that is not http or https"));
            }
            Ok(InputRequest { key, prompt: message.clone(), schema: None, url: Some(url.clone()) })
        }
        _ => Err(not_offered("a kind of question")),
    }
}

/// The defaults of all forms that have some.
pub(super) fn defaults_of(inputs: &[InputRequest]) -> Defaults {
    let of_form = |schema: &Value| -> Option<Map<String, Value>> {
        let fields = schema.get("properties")?.as_object()?.iter();
        Some(fields.filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone()))).collect())
    };
    let all = inputs.iter().filter_map(|input| Some((input.key.clone(), of_form(input.schema.as_ref()?)?)));
    all.filter(|(_, defaults)| !defaults.is_empty()).collect()
}

fn not_offered(what: &str) -> ToolFailure {
    failure::failed(format!("the MCP server asks for {what}, which this client does not offer"))
}

fn continuation(mut state: State, inputs: Vec<InputRequest>) -> Result<Continuation, ToolFailure> {
    state.defaults = defaults_of(&inputs);
    let state = CanonicalJson::of(&state).map_err(unwritable)?;
    within_limit(Continuation { state, inputs, repeatable: false })
}

pub(super) fn within_limit(continuation: Continuation) -> Result<Continuation, ToolFailure> {
    let bytes = CanonicalJson::of(&continuation).map_err(unwritable)?.bytes();
    if bytes > Continuation::MAX_BYTES {
        let most = Continuation::MAX_BYTES;
        return Err(failure::failed(format!(
            "the questions and the state of the MCP server are {bytes} bytes of JSON; a call keeps at most {most}"
        )));
    }
    Ok(continuation)
}

fn unwritable(error: serde_json::Error) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::Internal, error.to_string())
}
