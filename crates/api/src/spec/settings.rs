//! Reasoning level and output schema.

use serde_json::Value;
use windlass_core::{
    agent::{Enforcement, OutputSchema},
    limits::OUTPUT_SCHEMA_BYTES,
};

use super::{
    Invalid,
    fields::{Fields, is_word, whole_number},
    tools::check_schema,
};

const DEFAULT_SCHEMA_NAME: &str = "output";

pub(super) fn output_schema(fields: &Fields<'_>) -> Result<Option<OutputSchema>, Invalid> {
    const KEY: &str = "outputSchema";
    let Some(given) = fields.bounded_object(KEY, OUTPUT_SCHEMA_BYTES)? else { return Ok(None) };
    let name = given.text("name")?.unwrap_or(DEFAULT_SCHEMA_NAME);
    if !is_word(name, 64, "_-") {
        return Err(given.invalid("name", "must have 1 to 64 characters of A-Z a-z 0-9 _ -"));
    }
    let schema = match given.get("schema") {
        Some(schema @ Value::Object(_)) => schema.clone(),
        Some(_) => return Err(given.invalid("schema", "must be a JSON Schema, an object")),
        None => return Err(given.invalid("schema", "is required, a JSON Schema object")),
    };
    check_schema(&given, "schema", &schema, OUTPUT_SCHEMA_BYTES)?;
    let enforcement = match given.text("enforcement")? {
        None | Some("best_effort") => Enforcement::BestEffort,
        Some("strict") => Enforcement::Strict,
        Some(_) => return Err(given.invalid("enforcement", "must be \"best_effort\" or \"strict\"")),
    };
    Ok(Some(OutputSchema { name: name.to_owned(), schema, enforcement }))
}

/// From 0 (off) to 100.
pub(super) fn reasoning_level(fields: &Fields<'_>) -> Result<Option<u8>, Invalid> {
    const KEY: &str = "reasoningLevel";
    let level = match fields.get(KEY) {
        None => return Ok(None),
        Some(Value::String(word)) => match word.as_str() {
            "off" => Some(0),
            "low" => Some(30),
            "medium" => Some(50),
            "high" => Some(80),
            _ => None,
        },
        Some(value) => whole_number(value).and_then(|level| u8::try_from(level).ok()).filter(|level| *level <= 100),
    };
    match level {
        Some(level) => Ok(Some(level)),
        None => {
            Err(fields.invalid(KEY, "must be \"off\", \"low\", \"medium\", \"high\" or a whole number from 0 to 100"))
        }
    }
}
