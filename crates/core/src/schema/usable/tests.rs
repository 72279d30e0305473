use serde_json::json;

use super::*;
use crate::limits::TOOL_SCHEMA_BYTES;

fn said(schema: &Value) -> Result<(), String> {
    check(schema, TOOL_SCHEMA_BYTES).map_err(|unusable| unusable.to_string())
}

#[test]
fn what_people_write_can_be_used() {
    let schemas = [
        json!({}),
        json!({"type": "object", "properties": {"a": {"type": ["integer", "null"]}}, "required": ["a"]}),
        json!({"$ref": "#/$defs/tree", "$defs": {"tree": {
            "type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        }}}),
        json!({"type": "object", "properties": {"self": {"$ref": "#"}}}),
        json!({"properties": {"not": {"$ref": "#"}, "$ref": {"type": "string"}, "pattern": {"type": "string"}}}),
        // What schema generators make of an e-mail address looks ahead.
        json!({"type": "string", "pattern": "^(?!\\.)(?!.*\\.\\.)([a-z0-9_'+\\-\\.]*)[a-z0-9_+-]@[a-z]+$"}),
        json!({"default": {"$ref": "https://data/not-a-reference"}, "enum": [{"$ref": "x"}]}),
    ];
    for schema in schemas {
        assert_eq!(said(&schema), Ok(()), "{schema}");
    }
}

#[test]
fn what_cannot_be_used_is_named_by_its_place() {
    let foreign = "a $ref must name a part of this schema, for example \"#/$defs/address\"";
    let back = "this schema leads back to itself without looking at a part of the value";
    let deep = (0..70).fold(json!({}), |inner, _| json!({"items": inner}));
    let patterns: Map<String, Value> = (0..65).map(|index| (format!("^p{index}$"), json!({}))).collect();
    let cases = [
        (json!([]), "this must be a JSON Schema, which is an object".to_owned()),
        (json!({"$ref": "https://example.com/s.json"}), format!("/$ref: {foreign}")),
        (json!({"properties": {"a/b": {"$ref": "other.json"}}}), format!("/properties/a~1b/$ref: {foreign}")),
        (json!({"items": {"$ref": "#/$defs/none"}}), format!("/items/$ref: {foreign}")),
        (json!({"$ref": "#"}), back.to_owned()),
        (json!({"anyOf": [{"type": "string"}, {"$ref": "#"}]}), back.to_owned()),
        (json!({"items": {"$anchor": "x", "not": {"$ref": "#x"}}}), format!("/items: {back}")),
        (
            json!({"items": {"$id": "https://other"}}),
            "/items/$id: only the whole schema may have an $id; remove this one".to_owned(),
        ),
        (json!({"patternProperties": patterns}), "a schema has at most 64 regular expressions".to_owned()),
        (
            json!({"items": {"pattern": "x".repeat(1025)}}),
            "/items: a regular expression has at most 1024 characters".to_owned(),
        ),
        (json!({"title": "x".repeat(70_000)}), "this is 70012 bytes of JSON; write at most 65536".to_owned()),
    ];
    for (schema, expected) in cases {
        assert_eq!(said(&schema), Err(expected), "{schema}");
    }
    let nested = said(&deep).unwrap_err();
    assert!(nested.ends_with("this is nested more than 64 levels deep"), "{nested}");
    let banana = said(&json!({"properties": {"a": {"type": "banana"}}})).unwrap_err();
    assert!(banana.starts_with("/properties/a/type: this is not a valid JSON Schema: \"banana\""), "{banana}");
    let pattern = said(&json!({"pattern": "("})).unwrap_err();
    assert!(pattern.contains("this is not a valid JSON Schema"), "{pattern}");
    let huge = said(&json!({"pattern": "((x{1000}){1000}){1000}"}));
    assert!(huge.is_err(), "an expression that takes a gigabyte is refused");
}

#[test]
fn references_that_double_are_counted_and_not_followed() {
    let doubling = |levels: usize| {
        let mut schema = json!({"$ref": "#/$defs/d0", "$defs": {}});
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            schema["$defs"][format!("d{level}")] = json!({"allOf": [next, next]});
        }
        schema["$defs"][format!("d{levels}")] = json!({"type": "object"});
        schema
    };
    assert_eq!(said(&doubling(8)), Ok(()));
    assert_eq!(said(&doubling(40)), Err("this refers to more than 10000 schemas in all; refer to fewer".to_owned()));
}

#[test]
fn no_match_takes_for_ever() {
    let schema = json!({"type": "string", "pattern": "^(?=x)(x+x+)+y$"});
    assert_eq!(said(&schema), Ok(()));
    let began = std::time::Instant::now();
    assert!(!compiled(&schema).unwrap().is_valid(&json!("x".repeat(5_000))));
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}
