//! The outcome of a run.

use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_core::ids::RunId;

use crate::{Error, Event, EventBody, ModelRef, RunError, Tokens};

/// A run that completed with an answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    pub run: RunId,
    pub text: String,
    pub finish_reason: Option<String>,
    pub tokens: Option<Tokens>,
    pub turns: Option<u32>,
    pub model: Option<ModelRef>,
    /// The output schema that was requested.
    pub schema: Option<Value>,
    /// The whole terminal event.
    pub raw: Value,
}

impl Outcome {
    /// The answer as a value of a type. If the run had an output schema, the answer must match it.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let mismatch = |reason: String| Error::Answer { reason };
        let value: Value =
            serde_json::from_str(&self.text).map_err(|error| mismatch(format!("it is not JSON: {error}")))?;
        if let Some(schema) = &self.schema {
            let validator = jsonschema::validator_for(schema)
                .map_err(|error| mismatch(format!("the schema is not valid: {error}")))?;
            if let Err(error) = validator.validate(&value) {
                return Err(mismatch(format!("{}: {error}", error.instance_path())));
            }
        }
        serde_json::from_value(value).map_err(|error| mismatch(error.to_string()))
    }

    /// The end of a run, from its terminal event.
    pub(crate) fn of(run: &RunId, event: Event) -> Result<Self, Error> {
        let mut failed = RunError {
            run: run.clone(),
            cancelled: false,
            error_class: None,
            failure: None,
            message: String::new(),
            finish_reason: None,
            partial_text: None,
            retryable: false,
            api_status: None,
            api_code: None,
        };
        match event.body {
            EventBody::Result { subtype, text, finish_reason, tokens, turns, model, .. } if subtype == "success" => {
                return Ok(Self {
                    run: run.clone(),
                    text,
                    finish_reason,
                    tokens,
                    turns,
                    model,
                    schema: None,
                    raw: event.raw,
                });
            }
            EventBody::Result { subtype, text, error, error_class, finish_reason, .. } => {
                failed.message = error.unwrap_or_else(|| subtype.clone());
                failed.error_class = error_class.or(Some(subtype));
                failed.finish_reason = finish_reason;
                failed.partial_text = Some(text).filter(|text| !text.is_empty());
            }
            EventBody::Error {
                error,
                code,
                error_class,
                failure,
                finish_reason,
                partial_text,
                retryable,
                api_status,
                api_code,
            } => {
                failed.message = error;
                failed.error_class = error_class.or(code);
                failed.failure = failure;
                failed.finish_reason = finish_reason;
                failed.partial_text = partial_text;
                failed.retryable = retryable;
                failed.api_status = api_status;
                failed.api_code = api_code;
            }
            EventBody::Cancelled { reason } => {
                failed.cancelled = true;
                failed.message = reason;
            }
            _ => failed.message = format!("the terminal event {} is not known to this client", event.kind),
        }
        Err(Error::Run(Box::new(failed)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ending(kind: &str, raw: Value) -> Result<Outcome, Error> {
        Outcome::of(&"run-1".into(), Event::new(5, kind.to_owned(), raw))
    }

    #[test]
    fn a_failed_run_keeps_all_fields_of_its_error_event() {
        let raw = json!({"error": "cut", "code": "truncation", "errorClass": "truncation", "failure": "RUN",
            "finishReason": "max_tokens", "partialText": "{\"a\"", "retryable": false, "apiStatus": 200,
            "apiCode": "length"});
        let Err(Error::Run(error)) = ending("error", raw) else { panic!("expected a run error") };
        let expected = RunError {
            run: "run-1".into(),
            cancelled: false,
            error_class: Some("truncation".into()),
            failure: Some("RUN".into()),
            message: "cut".into(),
            finish_reason: Some("max_tokens".into()),
            partial_text: Some("{\"a\"".into()),
            retryable: false,
            api_status: Some(200),
            api_code: Some("length".into()),
        };
        assert_eq!(*error, expected);
    }

    #[test]
    fn a_result_with_another_subtype_than_success_is_an_error() {
        let raw = json!({"subtype": "error_local_tool_timeout", "text": "", "error": "timed out"});
        let said = ending("result", raw).unwrap_err().to_string();
        assert_eq!(said, "CLT0006: run-1 failed: timed out");
        let said = ending("cancelled", json!({"reason": "enough"})).unwrap_err().to_string();
        assert_eq!(said, "CLT0006: run-1 was cancelled: enough");
    }

    #[test]
    fn an_answer_must_match_its_schema_and_its_type() {
        let schema =
            json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]});
        let outcome = |text: &str, schema: Option<&Value>| {
            let outcome = ending("result", json!({"subtype": "success", "text": text})).unwrap();
            Outcome { schema: schema.cloned(), ..outcome }
        };
        assert_eq!(outcome("{\"n\": 3}", Some(&schema)).parse::<Value>().unwrap(), json!({"n": 3}));
        assert!(outcome("{\"n\": 0}", None).parse::<Value>().is_ok());
        for (text, expected) in [("{\"n\": 0}", "/n: "), ("nothing", "it is not JSON")] {
            let said = outcome(text, Some(&schema)).parse::<Value>().unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
        assert!(outcome("{\"n\": 3}", Some(&schema)).parse::<Vec<u8>>().is_err());
    }
}
