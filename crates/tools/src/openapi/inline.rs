//! Schemas of a document as schemas that stand alone: references are replaced by what they name.
//!
//! A circle, a reference to elsewhere, and what is too deep or too large become `{}`. A schema that takes more than was
//! meant is harmless, because the server checks its arguments itself; one that takes less would make the tool useless.

use serde_json::{Map, Value, json};
use windlass_core::{limits::PATTERN_CHARS, schema::check_usable};

use super::document::{Document, MAX_REFERENCES, clip};

/// What all schemas of a tool may have in JSON values.
const MAX_VALUES: usize = 2000;
/// How deep schemas may be nested.
const MAX_DEPTH: usize = 24;
const DESCRIPTION_CHARS: usize = 500;

/// Keywords whose value is a schema.
const ONE: [&str; 10] = [
    "items",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
    "contains",
    "not",
    "if",
    "then",
    "else",
];
/// Keywords whose value is a list of schemas.
const EACH: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is a map of schemas.
const NAMED: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
/// Keywords whose value is data. All other keywords are left out.
const DATA: [&str; 25] = [
    "type",
    "enum",
    "const",
    "default",
    "examples",
    "title",
    "description",
    "format",
    "required",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "readOnly",
    "writeOnly",
];

/// What may stand beside a reference. Other keywords there would only make the schema take less.
const BESIDE: [&str; 3] = ["title", "description", "default"];

/// Inlines the schemas of one tool.
pub(super) struct Inliner<'a> {
    document: &'a Document<'a>,
    /// How many values may still be written.
    left: usize,
    /// How often something became `{}`.
    cuts: usize,
    /// The references that are being inlined.
    open: Vec<String>,
    depth: usize,
}

impl<'a> Inliner<'a> {
    pub(super) fn new(document: &'a Document<'a>) -> Self {
        Self { document, left: MAX_VALUES, cuts: 0, open: Vec::new(), depth: 0 }
    }

    pub(super) fn schema(&mut self, schema: &Value) -> Value {
        if self.depth >= MAX_DEPTH || self.left == 0 {
            return self.cut();
        }
        self.left -= 1;
        self.depth += 1;
        let inlined = match schema {
            Value::Bool(_) => schema.clone(),
            Value::Object(fields) if fields.contains_key("$ref") => self.reference(fields),
            Value::Object(fields) => self.fields(fields).map_or_else(|| self.cut(), Value::Object),
            _ => self.cut(),
        };
        self.depth -= 1;
        inlined
    }

    fn cut(&mut self) -> Value {
        self.cuts += 1;
        json!({})
    }

    /// What a reference names, with the words that stand beside the reference.
    fn reference(&mut self, fields: &Map<String, Value>) -> Value {
        let reference = fields.get("$ref").and_then(Value::as_str).unwrap_or_default();
        let is_open = self.open.iter().any(|open| open == reference);
        let target = self.document.named(reference).filter(|_| !is_open && self.open.len() < MAX_REFERENCES);
        let Some(target) = target else { return self.cut() };
        self.open.push(reference.to_owned());
        let mut inlined = self.schema(target);
        self.open.pop();
        if let Value::Object(inlined) = &mut inlined {
            let beside = fields.iter().filter(|(keyword, _)| BESIDE.contains(&keyword.as_str()));
            inlined.extend(beside.map(|(keyword, value)| (keyword.clone(), self.data(value))));
            tidy(inlined);
        }
        inlined
    }

    /// `None` if the schema has more parts than may still be written.
    fn fields(&mut self, fields: &Map<String, Value>) -> Option<Map<String, Value>> {
        let mut written = Map::new();
        for (keyword, value) in fields {
            let before = self.cuts;
            let (keyword, value) = match keyword.as_str() {
                one if ONE.contains(&one) => (one, self.schema(value)),
                each if EACH.contains(&each) => (each, self.each(value)?),
                named if NAMED.contains(&named) => (named, self.named(value)?),
                data if DATA.contains(&data) => (data, self.data(value)),
                // Its targets depend on the way to it.
                "$dynamicRef" | "$recursiveRef" => {
                    self.cuts += 1;
                    continue;
                }
                _ => continue,
            };
            let keyword = match keyword {
                // These would take less if a part of them takes more.
                "not" | "if" if self.cuts > before => continue,
                "oneOf" if self.cuts > before => "anyOf",
                keyword => keyword,
            };
            written.insert(keyword.to_owned(), value);
        }
        tidy(&mut written);
        if self.document.is_3_0 {
            modernise(&mut written, fields);
        }
        Some(written)
    }

    fn each(&mut self, list: &Value) -> Option<Value> {
        let schemas = list.as_array()?;
        (schemas.len() <= self.left).then(|| schemas.iter().map(|schema| self.schema(schema)).collect())
    }

    fn named(&mut self, map: &Value) -> Option<Value> {
        let schemas = map.as_object()?;
        let is_small = schemas.len() <= self.left;
        let schema = |(name, schema): (&String, &Value)| (name.clone(), self.schema(schema));
        is_small.then(|| Value::Object(schemas.iter().map(schema).collect()))
    }

    /// Data is taken whole or, if it is too large, as `null`, which [`tidy`] removes.
    fn data(&mut self, value: &Value) -> Value {
        let values = count(value);
        if values > self.left {
            self.left = 0;
            self.cuts += 1;
            return Value::Null;
        }
        self.left -= values;
        value.clone()
    }
}

/// How many values there are; a long text counts as several.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
        Value::String(text) => 1 + text.len() / 1024,
        _ => 1,
    }
}

/// Removes what is not for a request or not usable.
fn tidy(schema: &mut Map<String, Value>) {
    schema.retain(|keyword, value| !value.is_null() || keyword == "const" || keyword == "default");
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = clip(description, DESCRIPTION_CHARS);
    }
    let is_pattern = |pattern: &Value| {
        let schema = json!({"type": "string", "pattern": pattern});
        check_usable(&schema, PATTERN_CHARS * 8).is_ok()
    };
    if schema.get("pattern").is_some_and(|pattern| !is_pattern(pattern)) {
        schema.remove("pattern");
    }
    // Some documents write `required: true` in a property, as a parameter has it.
    if schema.get("required").is_some_and(|required| !required.is_array()) {
        schema.remove("required");
    }
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    let only_read: Vec<String> = properties
        .iter()
        .filter(|(_, property)| property["readOnly"] == Value::Bool(true))
        .map(|(name, _)| name.clone())
        .collect();
    properties.retain(|name, _| !only_read.contains(name));
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| !only_read.iter().any(|only| name == only));
    }
}

/// A schema of OpenAPI 3.0 in the words of JSON Schema.
fn modernise(schema: &mut Map<String, Value>, original: &Map<String, Value>) {
    for (flag, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match schema.get(flag) {
            Some(Value::Bool(true)) => {
                schema.remove(flag);
                if let Some(limit) = schema.remove(limit) {
                    schema.insert(flag.to_owned(), limit);
                }
            }
            Some(Value::Bool(false)) => {
                schema.remove(flag);
            }
            _ => {}
        }
    }
    if original.get("nullable") != Some(&Value::Bool(true)) {
        return;
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    match schema.get("type").cloned() {
        Some(name @ Value::String(_)) => {
            schema.insert("type".to_owned(), json!([name, "null"]));
        }
        Some(_) => {}
        None if schema.keys().any(|keyword| EACH.contains(&keyword.as_str())) => {
            let inner = std::mem::take(schema);
            schema.insert("anyOf".to_owned(), json!([inner, {"type": "null"}]));
        }
        None => {}
    }
}
