//! Metadata: flat labels that runs and sessions are found by.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Invalid,
    fields::{Fields, is_word},
};

pub type Metadata = BTreeMap<String, String>;

const MAX_ENTRIES: usize = 16;
const MAX_KEY: usize = 64;
const MAX_VALUE: usize = 256;
const MAX_BYTES: usize = 4096;

pub(super) fn parse(fields: &Fields<'_>, key: &str) -> Result<Metadata, Invalid> {
    let Some(entries) = fields.object(key)? else { return Ok(Metadata::new()) };
    let mut metadata = Metadata::new();
    for (name, value) in entries.entries() {
        check_key(name).map_err(|problem| entries.invalid(name, problem))?;
        match value {
            Value::String(text) if text.chars().count() <= MAX_VALUE => metadata.insert(name.clone(), text.clone()),
            Value::String(_) => {
                return Err(entries.invalid(name, format!("must have at most {MAX_VALUE} characters")));
            }
            _ => return Err(entries.invalid(name, "must be a string")),
        };
    }
    check_size(&metadata).map_err(|problem| fields.invalid(key, problem))?;
    Ok(metadata)
}

pub fn check_key(name: &str) -> Result<(), String> {
    if is_word(name, MAX_KEY, "._-") {
        return Ok(());
    }
    Err(format!("a key has 1 to {MAX_KEY} characters of A-Z a-z 0-9 . _ -"))
}

fn check_size(metadata: &Metadata) -> Result<(), String> {
    if metadata.len() > MAX_ENTRIES {
        return Err(format!("has {} entries; send at most {MAX_ENTRIES}", metadata.len()));
    }
    // Strings always serialise.
    let bytes = serde_json::to_string(metadata).map_or(0, |text| text.len());
    if bytes > MAX_BYTES {
        return Err(format!("is {bytes} bytes of JSON; send at most {MAX_BYTES}"));
    }
    Ok(())
}

/// A session's metadata with a message's laid over it.
pub(super) fn merge(session: &Metadata, message: Metadata) -> Result<Metadata, Invalid> {
    let mut merged = session.clone();
    merged.extend(message);
    check_size(&merged)
        .map_err(|problem| Invalid::new("metadata", format!("together with the session's, {problem}")))?;
    Ok(merged)
}
