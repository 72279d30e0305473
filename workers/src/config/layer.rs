//! One file of configuration, read against the table of keys.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_core::{
    agent::Problem,
    file::{Fault, FileError, Places, Reading, Syntax, line_of, parse_toml, read, without_mark},
    secret::SecretRef,
};

use super::keys;

/// The values of a file, by JSON pointer: `/providers/anthropic/baseUrl`.
pub(super) struct Layer<'t> {
    name: String,
    text: &'t str,
    pub(super) values: BTreeMap<String, Leaf>,
    places: Places,
}

/// One value and where it stands.
pub(super) struct Leaf {
    /// As the file writes it: `providers.anthropic.base_url`.
    pub(super) path: String,
    pub(super) value: Value,
    pub(super) line: usize,
}

impl<'t> Layer<'t> {
    pub(super) fn parse(name: &str, text: &'t str) -> Result<Self, FileError> {
        let text = without_mark(text);
        let refused = |faults: Vec<Fault>| FileError::new(name, text, faults);
        let root = parse_toml(text).map_err(|fault| refused(vec![fault]))?;
        let Reading { mut value, faults, places } = read(&keys::ROOT, &root, Syntax::Toml);
        if !faults.is_empty() {
            return Err(refused(faults));
        }
        keys_as_text(&mut value);
        let mut values = BTreeMap::new();
        flatten(String::new(), value, &mut |pointer, value| {
            let (at, path) = places.get(&pointer).unwrap_or((0, ""));
            values.insert(pointer, Leaf { path: path.to_owned(), value, line: line_of(text, at) });
        });
        Ok(Self { name: name.to_owned(), text, values, places })
    }

    /// The error for what is wrong with the values.
    pub(super) fn refuse(&self, problems: Vec<Problem>) -> FileError {
        let faults = problems.into_iter().map(|problem| self.places.fault(problem)).collect();
        FileError::new(&self.name, self.text, faults)
    }
}

/// References to secrets as text, so that one of them replaces another as a whole.
fn keys_as_text(document: &mut Value) {
    let providers = document.get_mut("providers").and_then(Value::as_object_mut);
    for provider in providers.into_iter().flat_map(|providers| providers.values_mut()) {
        if let Some(key) = provider.get_mut("key")
            && let Ok(reference) = serde_json::from_value::<SecretRef>(key.clone())
        {
            *key = reference.to_string().into();
        }
    }
}

/// Every value that is no table, and empty tables. A list is one value.
fn flatten(pointer: String, value: Value, leaf: &mut impl FnMut(String, Value)) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                flatten(format!("{pointer}/{key}"), value, leaf);
            }
        }
        value => leaf(pointer, value),
    }
}
