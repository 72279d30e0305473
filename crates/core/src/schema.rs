//! Tool arguments against a tool's schema: gentle coercion first, then a full JSON Schema check. And a final answer
//! against the schema that was asked for, where nothing is coerced.
//!
//! Models write `"5"` for 5 and `"yes"` for true. A top-level value is coerced only where the schema wants another type
//! and the conversion loses nothing; whatever is then still wrong becomes a hint the model can act on.

mod usable;

use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Number, Value};

pub use self::usable::{Unusable, check as check_usable};
use crate::envelope::{FieldIssue, RetryHint, RetryReason, SchemaFit};

/// The largest number of problems reported for one call.
const MAX_ISSUES: usize = 16;

/// The arguments to use, or what is wrong with them.
pub fn coerce_and_validate(schema: &Value, args: Value) -> Result<Value, Box<RetryHint>> {
    ArgumentCheck::of(schema.clone()).apply(args)
}

/// A tool's schema, compiled once for many calls.
#[derive(Debug)]
pub struct ArgumentCheck {
    schema: Value,
    validator: Result<jsonschema::Validator, String>,
}

impl ArgumentCheck {
    pub fn of(schema: Value) -> Self {
        let validator = usable::compiled(&schema).map_err(|problem| problem.to_string());
        Self { schema, validator }
    }

    /// The arguments to use, or what is wrong with them.
    pub fn apply(&self, args: Value) -> Result<Value, Box<RetryHint>> {
        let args = match args {
            Value::Null => Value::Object(Map::new()),
            Value::String(text) => match serde_json::from_str::<Value>(&text) {
                Ok(parsed @ Value::Object(_)) => parsed,
                _ => Value::String(text),
            },
            other => other,
        };
        let args = coerce_properties(&self.schema, args);
        let issues: Vec<FieldIssue> = match &self.validator {
            Ok(validator) => validator.iter_errors(&args).take(MAX_ISSUES).map(issue).collect(),
            // A definition is checked before it is stored, so this is a definition of another build.
            Err(problem) => vec![FieldIssue {
                field: String::new(),
                constraint: "schema".to_owned(),
                message: format!("the tool's schema cannot be used: {problem}"),
            }],
        };
        if issues.is_empty() { Ok(args) } else { Err(Box::new(invalid(issues))) }
    }
}

/// The schema of a tool's results, compiled once for many calls.
#[derive(Debug)]
pub struct ResultCheck(Result<jsonschema::Validator, String>);

impl ResultCheck {
    pub fn of(schema: &Value) -> Self {
        Self(usable::compiled(schema).map_err(|problem| problem.to_string()))
    }

    /// What is wrong with a result. Nothing is coerced.
    pub fn apply(&self, result: &Value) -> Result<(), String> {
        let validator = self.0.as_ref().map_err(|problem| format!("the schema cannot be used: {problem}"))?;
        validator.iter_errors(result).next().map_or(Ok(()), |error| Err(first_problem(&error)))
    }
}

fn first_problem(error: &jsonschema::ValidationError<'_>) -> String {
    shorten(format!("{}: {error}", error.instance_path()))
}

fn issue(error: jsonschema::ValidationError<'_>) -> FieldIssue {
    let mut field = error.instance_path().to_string();
    // What is missing has no place in the arguments yet; it is named by where it belongs.
    if let ValidationErrorKind::Required { property: Value::String(name) } = error.kind() {
        field = format!("{field}/{name}");
    }
    FieldIssue { field, constraint: error.kind().keyword().to_owned(), message: shorten(error.to_string()) }
}

/// Whether a text is a JSON document that the schema accepts.
pub fn fit(schema: &Value, text: &str) -> SchemaFit {
    let validator = match usable::compiled(schema) {
        Ok(validator) => validator,
        Err(problem) => return SchemaFit::Unusable { problem: shorten(problem.to_string()) },
    };
    let document: Value = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(problem) => return SchemaFit::Misfit { problem: format!("it is not JSON: {problem}") },
    };
    match validator.iter_errors(&document).next() {
        None => SchemaFit::Fits,
        Some(error) => SchemaFit::Misfit { problem: first_problem(&error) },
    }
}

fn invalid(issues: Vec<FieldIssue>) -> RetryHint {
    let missing = issues.iter().filter(|issue| issue.constraint == "required");
    let missing_fields: Vec<String> = missing.map(|issue| issue.field.trim_start_matches('/').to_owned()).collect();
    let reason = if missing_fields.is_empty() { RetryReason::InvalidArguments } else { RetryReason::MissingFields };
    RetryHint { missing_fields, issues, ..RetryHint::new(reason) }
}

/// A key as RFC 6901 writes it inside a pointer.
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn shorten(text: String) -> String {
    if text.chars().count() <= 200 { text } else { text.chars().take(199).chain(['…']).collect() }
}

fn coerce_properties(schema: &Value, mut args: Value) -> Value {
    let (Some(fields), Some(properties)) = (args.as_object_mut(), schema["properties"].as_object()) else {
        return args;
    };
    for (name, property) in properties {
        if let Some(value) = fields.get_mut(name)
            && let Some(wanted) = property["type"].as_str()
            && let Some(coerced) = coerce(wanted, value)
        {
            *value = coerced;
        }
    }
    args
}

/// The value as the wanted type, or `None` to leave it as it is.
fn coerce(wanted: &str, value: &Value) -> Option<Value> {
    match (wanted, value) {
        ("boolean", Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(Value::Bool(true)),
            "false" | "no" | "off" | "0" => Some(Value::Bool(false)),
            _ => None,
        },
        ("integer", Value::String(text)) => text.trim().parse::<i64>().ok().map(Value::from),
        ("integer", Value::Number(number)) => {
            let float = number.as_f64().filter(|float| !number.is_i64() && !number.is_u64() && float.fract() == 0.0)?;
            (float.abs() < 9e15).then(|| Value::from(float as i64))
        }
        ("number", Value::String(text)) => {
            let text = text.trim();
            let integer = text.parse::<i64>().ok().map(Value::from);
            integer.or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number))
        }
        ("string", Value::Number(number)) => Some(Value::String(number.to_string())),
        ("string", Value::Bool(flag)) => Some(Value::String(flag.to_string())),
        ("array", Value::String(text)) => serde_json::from_str(text).ok().filter(Value::is_array),
        ("object", Value::String(text)) => serde_json::from_str(text).ok().filter(Value::is_object),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "count": {"type": "integer", "minimum": 1},
                "ratio": {"type": "number"},
                "name": {"type": "string"},
                "deep": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "opts": {"type": "object"}
            },
            "required": ["name"],
            "additionalProperties": false
        })
    }

    #[test]
    fn what_a_model_meant_is_what_the_tool_gets() {
        let args = json!({"count": "5", "ratio": "0.5", "name": 7, "deep": "Yes", "tags": "[\"a\"]", "opts": "{}"});
        assert_eq!(
            coerce_and_validate(&schema(), args).unwrap(),
            json!({"count": 5, "ratio": 0.5, "name": "7", "deep": true, "tags": ["a"], "opts": {}})
        );
        assert_eq!(coerce_and_validate(&schema(), json!("{\"name\":\"x\"}")).unwrap(), json!({"name": "x"}));
        assert_eq!(coerce_and_validate(&schema(), json!({"name": "x", "count": 3.0})).unwrap()["count"], json!(3));
    }

    #[test]
    fn what_cannot_be_meant_is_explained() {
        let hint = coerce_and_validate(&schema(), json!({"count": 0, "other": 1})).unwrap_err();
        assert_eq!(hint.reason, RetryReason::MissingFields);
        let mut constraints: Vec<&str> = hint.issues.iter().map(|issue| issue.constraint.as_str()).collect();
        constraints.sort_unstable();
        assert_eq!(constraints, ["additionalProperties", "minimum", "required"]);
        assert_eq!(hint.missing_fields, ["name"]);
        let hint = coerce_and_validate(&schema(), json!({"name": "x", "deep": "perhaps"})).unwrap_err();
        assert_eq!((hint.reason, hint.issues[0].field.as_str()), (RetryReason::InvalidArguments, "/deep"));
    }

    #[test]
    fn what_is_missing_is_named_by_where_it_belongs() {
        let place = json!({"type": "object", "required": ["city"]});
        let nested = json!({"type": "object", "properties": {"to": place}, "required": ["to"]});
        let missing = |args: Value| {
            let hint = coerce_and_validate(&nested, args).unwrap_err();
            let fields: Vec<String> = hint.issues.iter().map(|issue| issue.field.clone()).collect();
            (hint.missing_fields.clone(), fields)
        };
        assert_eq!(missing(json!({})), (vec!["to".to_owned()], vec!["/to".to_owned()]));
        assert_eq!(missing(json!({"to": {}})), (vec!["to/city".to_owned()], vec!["/to/city".to_owned()]));
    }

    #[test]
    fn an_answer_is_json_that_the_schema_accepts() {
        let wanted = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let word = |schema: &Value, text: &str| match fit(schema, text) {
            SchemaFit::Fits => "fits".to_owned(),
            SchemaFit::Misfit { problem } => format!("misfit: {problem}"),
            SchemaFit::Unusable { .. } => "unusable".to_owned(),
        };
        let cases = [
            (r#"{"n": 1}"#, "fits"),
            (" {\"n\": 1}\n", "fits"),
            (r#"{"n": "1"}"#, "misfit: /n: \"1\" is not of type \"integer\""),
            (r#"{}"#, "misfit: : \"n\" is a required property"),
            ("```json\n{\"n\": 1}\n```", "misfit: it is not JSON: expected value at line 1 column 1"),
            ("", "misfit: it is not JSON: EOF while parsing a value at line 1 column 0"),
        ];
        for (text, expected) in cases {
            assert_eq!(word(&wanted, text), expected, "{text}");
        }
        assert_eq!(word(&json!({"type": "wat"}), "{}"), "unusable");
    }

    #[test]
    fn nothing_is_coerced_that_would_lose_something() {
        let args = json!({"name": "x", "count": "5.5"});
        assert!(coerce_and_validate(&schema(), args).is_err());
        let args = json!({"name": null});
        assert!(coerce_and_validate(&schema(), args).is_err());
    }
}
