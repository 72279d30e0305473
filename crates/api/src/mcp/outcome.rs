//! The end of a run as the result of a call.

use serde_json::{Map, Value, json};
use windlass_core::{
    event::{Event, EventBody},
    ids::RunId,
};

use super::content::Answer;

/// Where a result says which run it is of.
pub(super) const RUN_KEY: &str = "windlass/runId";
/// Where the code of a failure is.
pub(super) const CODE_KEY: &str = "windlass/code";

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    Answered,
    Failed { code: String, message: String },
    Cancelled { reason: String },
}

impl Ending {
    /// From the terminal event of the run.
    pub(super) fn of(event: &Event) -> Self {
        match event.body() {
            Ok(EventBody::Result { subtype, .. }) if subtype == EventBody::SUCCESS => Self::Answered,
            Ok(EventBody::Result { subtype, error, error_class, .. }) => Self::Failed {
                message: error.unwrap_or_else(|| "the run failed".to_owned()),
                code: error_class.unwrap_or(subtype),
            },
            Ok(EventBody::Error { code, error, .. }) => Self::Failed { code, message: error },
            Ok(EventBody::Cancelled { reason, .. }) => Self::Cancelled { reason },
            // A terminal event of a newer build.
            _ => Self::Failed { code: event.kind.clone(), message: format!("the run ended with {}", event.kind) },
        }
    }
}

/// The result of a call whose run has ended. `structured` says that the tool has an output schema.
pub(super) fn of_run(run: &RunId, ending: &Ending, answer: &Answer, structured: bool) -> Value {
    match ending {
        Ending::Answered => answered(run, answer, structured),
        Ending::Failed { code, message } => failed(Some(run), code, message),
        Ending::Cancelled { reason } => failed(Some(run), "cancelled", &format!("the run was cancelled: {reason}")),
    }
}

fn answered(run: &RunId, answer: &Answer, structured: bool) -> Value {
    let mut result = json!({"content": answer.blocks(), "isError": false, "_meta": {RUN_KEY: run}});
    if structured {
        match serde_json::from_str::<Map<String, Value>>(&answer.text) {
            Ok(content) => result["structuredContent"] = Value::Object(content),
            // A tool with an output schema must not succeed without structured content.
            Err(_) => result["isError"] = json!(true),
        }
    }
    result
}

/// The result of a call that failed. The model behind the client reads the text.
pub(super) fn failed(run: Option<&RunId>, code: &str, message: &str) -> Value {
    let mut result =
        json!({"content": [text(&format!("{message} ({code})"))], "isError": true, "_meta": {CODE_KEY: code}});
    if let Some(run) = run {
        result["_meta"][RUN_KEY] = json!(run);
    }
    result
}

/// The result of a call whose run waits for something that this client cannot be asked for.
pub(super) fn waiting(run: &RunId, message: &str) -> Value {
    json!({"content": [text(message)], "isError": false, "_meta": {RUN_KEY: run, "windlass/status": "waiting"}})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[cfg(test)]
mod tests {
    use windlass_core::time::Timestamp;

    use super::*;

    fn event(kind: &str, data: Value) -> Event {
        let cost = json!({"turns": 1, "toolCalls": 0, "activeMs": 5, "usage": {}});
        let mut all = data;
        all.as_object_mut().unwrap().extend(cost.as_object().unwrap().clone());
        Event { seq: 9, at: Timestamp(0), key: "end".to_owned(), kind: kind.to_owned(), data: all }
    }

    fn of(event: &Event, answer: Option<&str>, structured: bool) -> Value {
        of_run(&"run-1".into(), &Ending::of(event), &Answer::text(answer.unwrap_or_default()), structured)
    }

    #[test]
    fn an_answer_is_text_and_with_an_output_schema_also_structured() {
        let success = event("result", json!({"text": "x", "subtype": "success"}));
        assert_eq!(
            of(&success, Some("Hello."), false),
            json!({"content": [{"type": "text", "text": "Hello."}], "isError": false, "_meta": {RUN_KEY: "run-1"}})
        );
        let structured = of(&success, Some("{\"city\": \"Bergen\"}"), true);
        assert_eq!(structured["structuredContent"], json!({"city": "Bergen"}));
        assert_eq!(structured["content"][0]["text"], "{\"city\": \"Bergen\"}");
        let broken = of(&success, Some("Bergen"), true);
        assert_eq!((broken.get("structuredContent"), &broken["isError"]), (None, &json!(true)));
    }

    #[test]
    fn a_failed_run_is_an_error_with_its_sentence_and_code() {
        let cases = [
            (event("error", json!({"code": "auth", "error": "no key", "retryable": false})), "no key (auth)", "auth"),
            (
                event("result", json!({"text": "", "subtype": "error_max_turns", "error": "too many turns"})),
                "too many turns (error_max_turns)",
                "error_max_turns",
            ),
            (event("cancelled", json!({"reason": "enough"})), "the run was cancelled: enough (cancelled)", "cancelled"),
        ];
        for (event, text, code) in cases {
            assert_eq!(
                of(&event, None, true),
                json!({
                    "content": [{"type": "text", "text": text}], "isError": true,
                    "_meta": {RUN_KEY: "run-1", CODE_KEY: code},
                })
            );
        }
    }
}
