//! JSON Schemas as OpenAI takes them.

use serde_json::{Map, Value, json};

/// Keywords that strict mode knows. A schema with another one is refused in strict mode, so it is sent without.
const STRICT_KEYWORDS: [&str; 21] = [
    "$defs",
    "$ref",
    "$schema",
    "additionalProperties",
    "anyOf",
    "const",
    "definitions",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
];

/// Whether a schema is in the subset that the provider enforces: an object at the top, and every object closed with all
/// of its properties required.
pub(crate) fn is_strict(schema: &Value) -> bool {
    schema["type"] == "object" && schema.get("anyOf").is_none() && is_strict_below(schema)
}

fn is_strict_below(schema: &Value) -> bool {
    let Some(fields) = schema.as_object() else { return false };
    let known = |name: &String| STRICT_KEYWORDS.contains(&name.as_str()) || matches!(name.as_str(), "type" | "title");
    fields.keys().all(known)
        && (!describes_object(fields) || is_closed(fields))
        && ["properties", "$defs", "definitions"]
            .into_iter()
            .all(|name| values_of(fields.get(name)).all(is_strict_below))
        && fields.get("items").is_none_or(is_strict_below)
        && fields.get("anyOf").is_none_or(|any| any.as_array().is_some_and(|any| any.iter().all(is_strict_below)))
}

fn describes_object(fields: &Map<String, Value>) -> bool {
    let of_type = match fields.get("type") {
        Some(Value::Array(types)) => types.iter().any(|it| it == "object"),
        Some(one) => one == "object",
        None => false,
    };
    of_type || fields.contains_key("properties")
}

fn is_closed(fields: &Map<String, Value>) -> bool {
    let required = fields.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|required| required.iter().any(|it| it == name.as_str()));
    let properties = fields.get("properties").and_then(Value::as_object);
    fields.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.is_some_and(|properties| properties.keys().all(is_required))
}

fn values_of(map: Option<&Value>) -> impl Iterator<Item = &Value> {
    map.and_then(Value::as_object).into_iter().flat_map(Map::values)
}

/// A tool's input schema. OpenAI wants an object with `properties`, even if it has none.
pub(crate) fn parameters_of(input_schema: &Value) -> Value {
    let mut parameters = match input_schema {
        Value::Object(fields) => fields.clone(),
        _ => Map::new(),
    };
    let is_object = parameters.entry("type").or_insert_with(|| json!("object")) == "object";
    if is_object {
        parameters.entry("properties").or_insert_with(|| json!({}));
    }
    parameters.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_strict_if_all_its_objects_are_closed() {
        let closed = |properties: Value| {
            let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
        };
        let strict = [
            closed(json!({})),
            closed(json!({"a": {"type": "string", "description": "d"}, "b": {"type": ["integer", "null"]}})),
            closed(json!({"list": {"type": "array", "items": closed(json!({"x": {"type": "number"}}))}})),
            closed(json!({"type": {"anyOf": [closed(json!({})), {"type": "null"}]}})),
        ];
        for schema in strict {
            assert!(is_strict(&schema), "{schema}");
        }
        let mut open = closed(json!({"a": {}}));
        open["additionalProperties"] = json!(true);
        let mut optional = closed(json!({"a": {}, "b": {}}));
        optional["required"] = json!(["a"]);
        let mut either = closed(json!({}));
        either["anyOf"] = json!([closed(json!({}))]);
        let loose = [
            open.clone(),
            optional,
            either,
            json!({"type": "array", "items": closed(json!({}))}),
            json!({"type": "object"}),
            json!(true),
            closed(json!({"a": {"type": "object"}})),
            closed(json!({"a": {"type": ["object", "null"]}})),
            closed(json!({"a": {"type": "array", "items": open.clone()}})),
            closed(json!({"a": {"anyOf": [open]}})),
            closed(json!({"a": {"allOf": []}})),
            closed(json!({"a": {"type": "string", "minLength": 1}})),
            closed(json!({"a": true})),
        ];
        for schema in loose {
            assert!(!is_strict(&schema), "{schema}");
        }
    }

    #[test]
    fn the_parameters_of_a_tool_are_an_object() {
        let empty = json!({"type": "object", "properties": {}});
        for (schema, parameters) in [
            (json!({}), empty.clone()),
            (json!(true), empty.clone()),
            (json!({"type": "object"}), empty),
            (json!({"properties": {"a": {}}}), json!({"type": "object", "properties": {"a": {}}})),
            (json!({"type": "string"}), json!({"type": "string"})),
        ] {
            assert_eq!(parameters_of(&schema), parameters);
        }
    }
}
