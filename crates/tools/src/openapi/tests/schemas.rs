//! Schemas stand alone, and take no less than the document says.

use super::*;

#[test]
fn references_are_inlined_with_their_own_description() {
    let document = components(json!({
        "Pet": {"type": "object", "properties": {"owner": {"$ref": "#/components/schemas/Owner", "description": "Whose."}}},
        "Owner": {"type": "string", "minLength": 1, "description": "A person.", "x-internal": true},
        "a/b": {"type": "integer"},
    }));
    assert_eq!(
        body_schema(document.clone(), json!({"$ref": "#/components/schemas/Pet"})),
        json!({"type": "object", "properties": {"owner": {"type": "string", "minLength": 1, "description": "Whose."}}})
    );
    assert_eq!(body_schema(document, json!({"$ref": "#/components/schemas/a~1b"})), json!({"type": "integer"}));
}

#[test]
fn names_of_properties_are_not_taken_for_keywords() {
    let schema = json!({
        "type": "object",
        "properties": {"$ref": {"type": "string"}, "example": {"type": "string"}, "xml": {}, "not": {"type": "null"}},
        "example": {"a": 1}, "xml": {"name": "x"}, "discriminator": {"propertyName": "x"}, "$id": "https://x/",
    });
    assert_eq!(
        body_schema(document(json!({})), schema.clone()),
        json!({"type": "object", "properties": schema["properties"]})
    );
}

#[test]
fn what_only_responses_have_is_left_out() {
    let schema = json!({
        "type": "object",
        "properties": {"id": {"type": "string", "readOnly": true}, "name": {"type": "string"}},
        "required": ["id", "name"],
    });
    assert_eq!(
        body_schema(document(json!({})), schema),
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
    );
}

#[test]
fn schemas_of_3_0_are_written_in_the_words_of_json_schema() {
    let mut document = document(json!({}));
    document["openapi"] = json!("3.0.3");
    for (old, new) in [
        (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
        (
            json!({"type": "string", "enum": ["a"], "nullable": true}),
            json!({"type": ["string", "null"], "enum": ["a", null]}),
        ),
        (
            json!({"allOf": [{"type": "string"}], "nullable": true}),
            json!({"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]}),
        ),
        (
            json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false}),
            json!({"type": "integer", "exclusiveMinimum": 1, "maximum": 9}),
        ),
    ] {
        assert_eq!(body_schema(document.clone(), old), new);
    }
}

#[test]
fn what_is_cut_out_of_a_schema_never_makes_it_take_less() {
    let recursive = components(json!({
        "Not": {"type": "object", "not": {"$ref": "#/components/schemas/Not"}},
        "One": {"oneOf": [{"type": "string"}, {"$ref": "#/components/schemas/One"}]},
        "If": {"if": {"$ref": "https://elsewhere/x"}, "then": {"type": "string"}},
    }));
    for (name, expected) in [
        ("Not", json!({"type": "object"})),
        ("One", json!({"anyOf": [{"type": "string"}, {}]})),
        ("If", json!({"then": {"type": "string"}})),
    ] {
        let reference = json!({"$ref": format!("#/components/schemas/{name}")});
        assert_eq!(body_schema(recursive.clone(), reference), expected, "{name}");
    }
}

#[test]
fn a_part_that_is_no_schema_takes_anything() {
    for (schema, expected) in [
        (json!({"type": "file", "description": "A file."}), json!({"description": "A file."})),
        (json!("string"), json!({})),
        (json!({"type": "string", "pattern": "(?<broken"}), json!({"type": "string"})),
        (json!({"type": "string", "required": true}), json!({"type": "string"})),
        (json!({"properties": [1]}), json!({})),
    ] {
        assert_eq!(body_schema(document(json!({})), schema), expected);
    }
}

#[test]
fn arguments_are_checked_against_the_inlined_schema() {
    let document = components(json!({
        "Tree": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}},
            "required": ["name"],
        },
    }));
    let mut document = document;
    let schema = json!({"$ref": "#/components/schemas/Tree"});
    document["paths"] = json!({"/x": {"post": {"requestBody": {"content": {"application/json": {"schema": schema}}}}}});
    let schema = only_tool(&document).schema();
    let fits = |args: Value| coerce_and_validate(&schema, args).is_ok();
    assert!(fits(json!({"body": {"name": "a", "children": [{"name": "b", "children": []}]}})));
    assert!(!fits(json!({"body": {"children": []}})));
    assert!(!fits(json!({"other": 1})));
}
