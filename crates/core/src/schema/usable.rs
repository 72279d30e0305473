//! Whether a JSON Schema can be used, and at what cost. The check happens when a schema is submitted: a
//! schema that cannot be used would otherwise fail a run after its model calls were paid.
//!
//! A caller writes the schema and may write it to be expensive: very deep, full of regular expressions that backtrack,
//! with references that lead back to themselves or that double at every level.

use std::collections::HashMap;

use jsonschema::{PatternOptions, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::{Map, Value};

use super::{escape, shorten};
use crate::limits::{PATTERN_CHARS, SCHEMA_DEPTH, SCHEMA_PATTERNS, SCHEMA_STEPS};

/// How often one match may backtrack before it counts as failed.
const BACKTRACKS: usize = 100_000;
/// What one regular expression may take up when it is compiled.
const PATTERN_BYTES: usize = 1024 * 1024;

/// Keywords whose value is one schema for the same value.
const SAME_ONE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords whose value is a list of schemas for the same value.
const SAME_EACH: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords whose value is a map of schemas for the same value.
const SAME_NAMED: [&str; 2] = ["dependentSchemas", "dependencies"];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords whose value is data, not a schema.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];

/// The first thing that is wrong with a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", if at.is_empty() { String::new() } else { format!("{at}: ") })]
pub struct Unusable {
    /// A JSON pointer into the schema; empty for the whole.
    pub at: String,
    pub problem: String,
}

impl Unusable {
    fn new(at: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { at: at.into(), problem: problem.into() }
    }
}

/// Whether values can be checked against `schema`, which has at most `most` bytes of JSON.
pub fn check(schema: &Value, most: usize) -> Result<(), Unusable> {
    if !schema.is_object() {
        return Err(Unusable::new("", "this must be a JSON Schema, which is an object"));
    }
    let bytes = schema.to_string().len();
    if bytes > most {
        return Err(Unusable::new("", format!("this is {bytes} bytes of JSON; write at most {most}")));
    }
    let mut walk = Walk { patterns: 0, anchors: HashMap::new(), schemas: Vec::new() };
    walk.visit(schema, &mut String::new(), 0)?;
    let Walk { anchors, schemas, .. } = walk;
    let mut costs = Costs { root: schema, anchors: &anchors, known: HashMap::new() };
    for (at, part) in schemas {
        if costs.of(part, &at)? > SCHEMA_STEPS {
            let problem = format!("this refers to more than {SCHEMA_STEPS} schemas in all; refer to fewer");
            return Err(Unusable::new(at, problem));
        }
    }
    compiled(schema).map(|_| ()).map_err(|error| explained(schema, &error))
}

/// A schema ready to be checked against. Nothing is fetched, and no match takes for ever.
pub(super) fn compiled(schema: &Value) -> Result<Validator, ValidationError<'static>> {
    let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS).size_limit(PATTERN_BYTES);
    jsonschema::options().with_pattern_options(patterns).build(schema)
}

fn explained(schema: &Value, error: &ValidationError<'_>) -> Unusable {
    if matches!(error.kind(), ValidationErrorKind::Referencing(_)) {
        let at = unresolved_ref(schema, schema).unwrap_or_default();
        return Unusable::new(at, "a $ref must name a part of this schema, for example \"#/$defs/address\"");
    }
    let problem = shorten(format!("this is not a valid JSON Schema: {error}"));
    Unusable::new(error.instance_path().as_str(), problem)
}

/// Where the first `$ref` stands that names no part of the schema; the error itself does not say.
fn unresolved_ref(root: &Value, part: &Value) -> Option<String> {
    match part {
        Value::Object(fields) => fields.iter().find_map(|(key, value)| match value {
            Value::String(target) if key == "$ref" => {
                let resolved = target.strip_prefix('#').is_some_and(|pointer| root.pointer(pointer).is_some());
                (!resolved).then(|| "/$ref".to_owned())
            }
            _ => unresolved_ref(root, value).map(|below| format!("/{}{below}", escape(key))),
        }),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| unresolved_ref(root, item).map(|below| format!("/{index}{below}"))),
        _ => None,
    }
}

/// One look at every part.
struct Walk<'a> {
    patterns: usize,
    anchors: HashMap<&'a str, &'a Value>,
    /// Every object, which may be a schema, with its place.
    schemas: Vec<(String, &'a Value)>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, part: &'a Value, at: &mut String, depth: usize) -> Result<(), Unusable> {
        if depth > SCHEMA_DEPTH {
            return Err(Unusable::new(&*at, format!("this is nested more than {SCHEMA_DEPTH} levels deep")));
        }
        match part {
            Value::Object(fields) => {
                self.look_at(fields, part, at)?;
                for (key, value) in fields.iter().filter(|(key, _)| !DATA.contains(&key.as_str())) {
                    self.below(&escape(key), value, at, depth)?;
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.below(&index.to_string(), item, at, depth)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn below(&mut self, step: &str, part: &'a Value, at: &mut String, depth: usize) -> Result<(), Unusable> {
        let length = at.len();
        at.push('/');
        at.push_str(step);
        self.visit(part, at, depth + 1)?;
        at.truncate(length);
        Ok(())
    }

    fn look_at(&mut self, fields: &'a Map<String, Value>, part: &'a Value, at: &str) -> Result<(), Unusable> {
        self.schemas.push((at.to_owned(), part));
        for anchor in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(name)) = fields.get(anchor) {
                self.anchors.insert(name, part);
            }
        }
        // A part with an address of its own would change what the references below it mean.
        if !at.is_empty() && fields.get("$id").is_some_and(Value::is_string) {
            return Err(Unusable::new(format!("{at}/$id"), "only the whole schema may have an $id; remove this one"));
        }
        for keyword in REFERENCES {
            if let Some(Value::String(target)) = fields.get(keyword)
                && !target.starts_with('#')
            {
                let problem = "a $ref must name a part of this schema, for example \"#/$defs/address\"";
                return Err(Unusable::new(format!("{at}/{keyword}"), problem));
            }
        }
        let of_names = fields.get("patternProperties").and_then(Value::as_object);
        let of_values = fields.get("pattern").and_then(Value::as_str);
        for pattern in of_names.into_iter().flat_map(Map::keys).map(String::as_str).chain(of_values) {
            self.patterns += 1;
            if pattern.chars().count() > PATTERN_CHARS {
                let problem = format!("a regular expression has at most {PATTERN_CHARS} characters");
                return Err(Unusable::new(at, problem));
            }
            if self.patterns > SCHEMA_PATTERNS {
                let problem = format!("a schema has at most {SCHEMA_PATTERNS} regular expressions");
                return Err(Unusable::new(at, problem));
            }
        }
        Ok(())
    }
}

/// How many schemas one value is checked against because it is checked against one.
struct Costs<'a> {
    root: &'a Value,
    anchors: &'a HashMap<&'a str, &'a Value>,
    /// By identity; nothing while it is being counted.
    known: HashMap<*const Value, Option<usize>>,
}

impl<'a> Costs<'a> {
    fn of(&mut self, part: &'a Value, at: &str) -> Result<usize, Unusable> {
        let Value::Object(fields) = part else { return Ok(1) };
        match self.known.get(&std::ptr::from_ref(part)) {
            Some(Some(cost)) => return Ok(*cost),
            Some(None) => {
                let problem = "this schema leads back to itself without looking at a part of the value";
                return Err(Unusable::new(at, problem));
            }
            None => {}
        }
        self.known.insert(std::ptr::from_ref(part), None);
        let mut cost = 1_usize;
        for next in same_value(fields) {
            cost = cost.saturating_add(self.of(next, at)?);
        }
        for target in REFERENCES.iter().filter_map(|keyword| fields.get(*keyword)).filter_map(Value::as_str) {
            if let Some(next) = self.named(target) {
                cost = cost.saturating_add(self.of(next, at)?);
            }
        }
        self.known.insert(std::ptr::from_ref(part), Some(cost));
        Ok(cost)
    }

    fn named(&self, target: &str) -> Option<&'a Value> {
        let name = target.strip_prefix('#')?;
        self.root.pointer(name).or_else(|| self.anchors.get(name).copied())
    }
}

/// The schemas that the same value is checked against as well.
fn same_value(fields: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let one = SAME_ONE.iter().filter_map(|keyword| fields.get(*keyword));
    let each = SAME_EACH.iter().filter_map(|keyword| fields.get(*keyword)).filter_map(Value::as_array).flatten();
    let named = SAME_NAMED.iter().filter_map(|keyword| fields.get(*keyword)).filter_map(Value::as_object);
    one.chain(each).chain(named.flat_map(Map::values))
}

#[cfg(test)]
mod tests;
