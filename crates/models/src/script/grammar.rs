//! The grammar of scripts, as an author writes them.
//!
//! Field names are snake_case; the fields of awaits and of `usage` may also be written in the camelCase of the envelopes
//! they become. A field the grammar does not know is an error, because a misspelt field would silently change a test.

use std::collections::BTreeMap;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::{Map, Value};
use windlass_core::{
    awaits::ExpiryOutcome, canonical::CanonicalJson, ids::ToolName, message::Part, stop::StopReason, time::Millis,
};

use super::error::ScriptError;
use crate::error::ErrorClass;

/// A conversation's worth of answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Script {
    pub(super) turns: Vec<Turn>,
    /// Past the end, the last turn answers again.
    pub(super) repeat_last: bool,
    /// What a tools-disabled call answers.
    pub(super) finalize: Option<String>,
}

/// A script whose turns are not decoded yet, so that an error can say which turn it is in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    turns: Vec<Value>,
    #[serde(default)]
    repeat_last: bool,
    #[serde(default)]
    finalize: Option<String>,
}

/// One answer. Without text, calls, awaits or an error it is an empty one.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Turn {
    pub(super) text: Option<String>,
    /// The text in the pieces it is streamed in.
    pub(super) deltas: Option<Vec<String>>,
    pub(super) thinking: Option<String>,
    pub(super) tool_calls: Vec<Call>,
    /// The answer part by part, instead of `text`, `deltas`, `thinking` and `tool_calls`. Any kind may be played.
    pub(super) parts: Option<Vec<Part>>,
    /// The turn fails as `auth` unless the agent has credentials.
    pub(super) needs_credentials: bool,
    pub(super) stop: Option<StopReason>,
    /// The provider's id of the response.
    pub(super) response_id: Option<String>,
    /// How long the model thinks before it says anything or fails.
    pub(super) delay_ms: u64,
    /// The pause between two deltas.
    pub(super) delta_delay_ms: u64,
    #[serde(rename = "await", deserialize_with = "one_or_many")]
    pub(super) awaits: Vec<Await>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<Failure>,
    /// Played instead when the last call's result is an error.
    pub(super) after_error: Option<Box<Turn>>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) name: ToolName,
    #[serde(default = "no_arguments")]
    pub(super) args: CanonicalJson,
}

fn no_arguments() -> CanonicalJson {
    CanonicalJson::from(Value::Object(Map::new()))
}

/// What the model wants from the outside world. Call ids and digests are filled in when the turn is played.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Await {
    Clarification {
        question: String,
        #[serde(default, alias = "missingFields")]
        missing_fields: Vec<String>,
        #[serde(default, alias = "restrictToTool")]
        restrict_to_tool: Option<ToolName>,
        #[serde(default, alias = "exampleInput")]
        example_input: Option<Value>,
        #[serde(default, alias = "clarifyingPrompt")]
        clarifying_prompt: Option<String>,
        #[serde(default, alias = "defaultAnswer")]
        default_answer: Option<String>,
        #[serde(default, alias = "expiresInMs")]
        expires_in_ms: Option<Millis>,
        #[serde(default, alias = "onExpiry")]
        on_expiry: Option<ExpiryOutcome>,
    },
    Questions {
        #[serde(alias = "toolName")]
        tool_name: ToolName,
        #[serde(default)]
        title: Option<String>,
        questions: Vec<QuestionSpec>,
        #[serde(default, alias = "expiresInMs")]
        expires_in_ms: Option<Millis>,
        #[serde(default, alias = "onExpiry")]
        on_expiry: Option<ExpiryOutcome>,
    },
    ExternalTools {
        calls: Vec<Call>,
        #[serde(default, alias = "expiresInMs")]
        expires_in_ms: Option<Millis>,
        #[serde(default, alias = "onExpiry")]
        on_expiry: Option<ExpiryOutcome>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuestionSpec {
    pub(super) id: String,
    pub(super) prompt: String,
    #[serde(default)]
    pub(super) options: Vec<OptionSpec>,
    #[serde(default, alias = "allowMultiple")]
    pub(super) allow_multiple: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OptionSpec {
    pub(super) id: String,
    pub(super) label: String,
}

/// Reported tokens. The total is their sum unless it is given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Usage {
    #[serde(alias = "inputTokens")]
    pub(super) input_tokens: u64,
    #[serde(alias = "outputTokens")]
    pub(super) output_tokens: u64,
    #[serde(alias = "totalTokens")]
    pub(super) total_tokens: Option<u64>,
    #[serde(alias = "cacheReadTokens", alias = "cachedTokens")]
    pub(super) cache_read_tokens: u64,
    #[serde(alias = "cacheWriteTokens")]
    pub(super) cache_write_tokens: u64,
    #[serde(alias = "reasoningTokens")]
    pub(super) reasoning_tokens: u64,
}

/// A turn that fails. The names are those of the protocol's `error` event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Failure {
    pub(super) error: String,
    pub(super) error_class: ErrorClass,
    /// Follows from the class when absent.
    #[serde(default)]
    pub(super) retryable: Option<bool>,
    #[serde(default)]
    pub(super) api_status: Option<u16>,
    #[serde(default)]
    pub(super) api_code: Option<String>,
    /// How many attempts fail before the turn answers; all of them when absent.
    #[serde(default)]
    pub(super) times: Option<u32>,
}

impl Failure {
    /// Whether the turn will answer in the end; one that never does says its text before it fails.
    pub(super) fn passes(&self) -> bool {
        self.times.is_some()
    }

    pub(super) fn strikes(&self, attempt: u32) -> bool {
        self.times.is_none_or(|times| attempt <= times)
    }
}

/// All scripts of a file, by name.
pub(super) fn parse(json: &str) -> Result<BTreeMap<String, Script>, ScriptError> {
    let scripts: BTreeMap<String, Value> =
        serde_json::from_str(json).map_err(|source| ScriptError::malformed(&source))?;
    scripts
        .into_iter()
        .map(|(name, script)| {
            let script = parse_script(&name, script)?;
            Ok((name, script))
        })
        .collect()
}

fn parse_script(name: &str, script: Value) -> Result<Script, ScriptError> {
    let RawScript { turns, repeat_last, finalize } =
        object(script).map_err(|source| ScriptError::invalid(name, None, &source))?;
    let turns = turns
        .into_iter()
        .enumerate()
        .map(|(index, turn)| parse_turn(turn).map_err(|source| ScriptError::invalid(name, Some(index), &source)))
        .collect::<Result<_, _>>()?;
    Ok(Script { turns, repeat_last, finalize })
}

fn parse_turn(turn: Value) -> Result<Turn, serde_json::Error> {
    let turn: Turn = object(turn)?;
    let other = turn.after_error.as_deref();
    let said = |turn: &Turn| {
        turn.text.is_some() || turn.deltas.is_some() || turn.thinking.is_some() || !turn.tool_calls.is_empty()
    };
    if [Some(&turn), other].into_iter().flatten().any(|turn| turn.parts.is_some() && said(turn)) {
        return Err(serde_json::Error::custom(
            "give `parts`, or `text`, `deltas`, `thinking` and `tool_calls`, not both",
        ));
    }
    if [Some(&turn), other].into_iter().flatten().any(|turn| turn.text.is_some() && turn.deltas.is_some()) {
        return Err(serde_json::Error::custom("give `text` or `deltas`, not both"));
    }
    if other.is_some_and(|other| other.after_error.is_some()) {
        return Err(serde_json::Error::custom("an `after_error` has no `after_error` of its own"));
    }
    Ok(turn)
}

/// Left to itself, serde would also take a list of values in the order of the fields. Fields that begin with `x-` are the
/// author's own.
fn object<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    let Value::Object(mut fields) = value else {
        return Err(serde_json::Error::custom("this must be an object"));
    };
    fields.retain(|name, _| !name.starts_with("x-"));
    serde_json::from_value(Value::Object(fields))
}

/// Reads the value itself before deciding, because an untagged enum would not say which field is wrong.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Await>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Array(many) => {
            many.into_iter().map(|one| serde_json::from_value(one).map_err(D::Error::custom)).collect()
        }
        one => Ok(vec![serde_json::from_value(one).map_err(D::Error::custom)?]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(script: Value) -> Result<Script, ScriptError> {
        let scripts = parse(&json!({"s": script}).to_string())?;
        Ok(scripts["s"].clone())
    }

    fn refusal(script: Value) -> String {
        one(script).unwrap_err().to_string()
    }

    #[test]
    fn every_field_of_a_turn_is_read() {
        let script = one(json!({
            "repeat_last": true,
            "finalize": "bye",
            "turns": [
                {"text": "hi", "thinking": "hm", "tool_calls": [{"name": "clock"}, {"name": "notes.add", "args": {"key": "k"}}],
                 "stop": "max_tokens", "delay_ms": 5, "delta_delay_ms": 6, "usage": {"inputTokens": 1, "cachedTokens": 2}},
                {"deltas": ["a", "b"], "x-note": "why this turn is here"},
                {"error": {"error": "busy", "errorClass": "overloaded", "retryable": false, "apiStatus": 529, "apiCode": "busy", "times": 2}},
            ],
        }))
        .unwrap();
        let first = Turn {
            text: Some("hi".into()),
            thinking: Some("hm".into()),
            tool_calls: vec![
                Call { name: "clock".into(), args: json!({}).into() },
                Call { name: "notes.add".into(), args: json!({"key": "k"}).into() },
            ],
            stop: Some(StopReason::MaxTokens),
            delay_ms: 5,
            delta_delay_ms: 6,
            usage: Some(Usage { input_tokens: 1, cache_read_tokens: 2, ..Usage::default() }),
            ..Turn::default()
        };
        let second = Turn { deltas: Some(vec!["a".into(), "b".into()]), ..Turn::default() };
        let failure = Failure {
            error: "busy".into(),
            error_class: ErrorClass::Overloaded,
            retryable: Some(false),
            api_status: Some(529),
            api_code: Some("busy".into()),
            times: Some(2),
        };
        let third = Turn { error: Some(failure), ..Turn::default() };
        assert_eq!(
            script,
            Script { turns: vec![first, second, third], repeat_last: true, finalize: Some("bye".into()) }
        );
    }

    #[test]
    fn an_await_is_one_object_or_a_list_in_either_case_style() {
        let clarification = |expires: u64| Await::Clarification {
            question: "which?".into(),
            missing_fields: vec!["region".into()],
            restrict_to_tool: None,
            example_input: None,
            clarifying_prompt: None,
            default_answer: Some("all".into()),
            expires_in_ms: Some(Millis(expires)),
            on_expiry: Some(ExpiryOutcome::Default),
        };
        let camel = json!({"kind": "clarification", "question": "which?", "missingFields": ["region"],
                           "defaultAnswer": "all", "expiresInMs": 1, "onExpiry": "default"});
        let snake = json!({"kind": "clarification", "question": "which?", "missing_fields": ["region"],
                           "default_answer": "all", "expires_in_ms": 2, "on_expiry": "default"});
        let awaits = |value: Value| one(json!({"turns": [{"await": value}]})).unwrap().turns.remove(0).awaits;
        assert_eq!(awaits(camel.clone()), vec![clarification(1)]);
        assert_eq!(awaits(json!([camel, snake])), vec![clarification(1), clarification(2)]);
    }

    #[test]
    fn an_unknown_field_is_named_with_its_script_and_turn() {
        assert_eq!(
            refusal(json!({"turns": [], "finalise": "x"})),
            "script `s`: unknown field `finalise`, expected one of `turns`, `repeat_last`, `finalize`"
        );
        let cases = [
            (json!({"txt": "hi"}), "unknown field `txt`"),
            (json!({"tool_calls": [{"name": "clock", "arguments": {}}]}), "unknown field `arguments`"),
            (json!({"usage": {"tokens": 1}}), "unknown field `tokens`"),
            (json!({"error": {"error": "x", "errorClass": "server", "after": 1}}), "unknown field `after`"),
            (json!({"await": {"kind": "clarification", "question": "q", "timeout": 1}}), "unknown field `timeout`"),
            (json!({"await": [{"kind": "external_tools", "calls": [], "wait": 1}]}), "unknown field `wait`"),
            (
                json!({"await": {"kind": "questions", "tool_name": "ask", "questions": [{"id": "a", "prompt": "p", "multi": 1}]}}),
                "unknown field `multi`",
            ),
        ];
        for (turn, complaint) in cases {
            let refusal = refusal(json!({"turns": [{}, turn]}));
            assert!(refusal.starts_with(&format!("script `s`, turns[1]: {complaint}, ")), "{refusal}");
        }
    }

    #[test]
    fn what_is_not_the_grammar_is_refused() {
        let cases = [
            (json!({"text": "a", "deltas": ["b"]}), "give `text` or `deltas`, not both"),
            (json!({"after_error": {"text": "a", "deltas": ["b"]}}), "give `text` or `deltas`, not both"),
            (
                json!({"parts": [], "tool_calls": [{"name": "clock"}]}),
                "give `parts`, or `text`, `deltas`, `thinking` and `tool_calls`, not both",
            ),
            (json!({"parts": [{"text": "a"}]}), "missing field `kind`"),
            (json!({"after_error": {"after_error": {}}}), "an `after_error` has no `after_error` of its own"),
            (json!({"error": {"error": "x"}}), "missing field `errorClass`"),
            (json!({"error": {"error": "x", "errorClass": "gremlins"}}), "unknown variant `gremlins`"),
            (json!({"await": {"kind": "vibes"}}), "unknown variant `vibes`"),
            (json!({"await": {"kind": "clarification"}}), "missing field `question`"),
            (json!({"delay_ms": -1}), "invalid value: integer `-1`"),
            (json!([]), "this must be an object"),
        ];
        for (turn, complaint) in cases {
            let refusal = refusal(json!({"turns": [turn]}));
            assert!(refusal.starts_with(&format!("script `s`, turns[0]: {complaint}")), "{refusal}");
        }
    }

    #[test]
    fn errors_tell_a_broken_file_from_a_broken_script() {
        use super::super::error::ScriptErrorKind::{InvalidScript, Malformed};

        assert_eq!(parse("[]").unwrap_err().kind, Malformed);
        assert_eq!(parse("{").unwrap_err().kind, Malformed);
        assert_eq!(parse(r#"{"s": {}}"#).unwrap_err().kind, InvalidScript);
        assert_eq!(refusal(json!({})), "script `s`: missing field `turns`");
        assert_eq!(refusal(json!([{"text": "hi"}])), "script `s`: this must be an object");
    }

    #[test]
    fn a_failure_strikes_as_often_as_it_says() {
        let failure = |times| Failure {
            error: "x".into(),
            error_class: ErrorClass::Server,
            retryable: None,
            api_status: None,
            api_code: None,
            times,
        };
        assert_eq!([1, 2, 3].map(|attempt| failure(Some(2)).strikes(attempt)), [true, true, false]);
        assert!(failure(None).strikes(100));
    }
}
