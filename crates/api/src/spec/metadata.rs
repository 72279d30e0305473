//! Metadata: string labels of runs and sessions, for filtering.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_core::limits::{METADATA_BYTES, METADATA_ENTRIES, METADATA_KEY_CHARS, METADATA_VALUE_CHARS};

use super::{
    Invalid,
    fields::{Fields, is_word},
};

pub type Metadata = BTreeMap<String, String>;

pub(super) fn parse(fields: &Fields<'_>, key: &str) -> Result<Metadata, Invalid> {
    let Some(entries) = fields.object(key)? else { return Ok(Metadata::new()) };
    check_count(entries.len()).map_err(|problem| fields.invalid(key, problem))?;
    let mut metadata = Metadata::new();
    for (name, value) in entries.entries() {
        check_key(name).map_err(|problem| entries.invalid(name, problem))?;
        match value {
            Value::String(text) if text.chars().count() <= METADATA_VALUE_CHARS => {
                metadata.insert(name.clone(), text.clone())
            }
            Value::String(_) => {
                return Err(entries.invalid(name, format!("must have at most {METADATA_VALUE_CHARS} characters")));
            }
            _ => return Err(entries.invalid(name, "must be a string")),
        };
    }
    check_size(&metadata).map_err(|problem| fields.invalid(key, problem))?;
    Ok(metadata)
}

pub fn check_key(name: &str) -> Result<(), String> {
    if is_word(name, METADATA_KEY_CHARS, "._-") {
        return Ok(());
    }
    Err(format!("a key has 1 to {METADATA_KEY_CHARS} characters of A-Z a-z 0-9 . _ -"))
}

fn check_count(entries: usize) -> Result<(), String> {
    if entries > METADATA_ENTRIES {
        return Err(format!("has {entries} entries; send at most {METADATA_ENTRIES}"));
    }
    Ok(())
}

fn check_size(metadata: &Metadata) -> Result<(), String> {
    check_count(metadata.len())?;
    // Strings always serialise.
    let bytes = serde_json::to_string(metadata).map_or(0, |text| text.len());
    if bytes > METADATA_BYTES {
        return Err(format!("is {bytes} bytes of JSON; send at most {METADATA_BYTES}"));
    }
    Ok(())
}

/// A session's metadata merged with a message's, whose values win.
pub(super) fn merge(session: &Metadata, message: Metadata) -> Result<Metadata, Invalid> {
    let mut merged = session.clone();
    merged.extend(message);
    check_size(&merged)
        .map_err(|problem| Invalid::new("metadata", format!("together with the session's, {problem}")))?;
    Ok(merged)
}
