//! Documents that are written to be expensive or to lead elsewhere.

use windlass_core::{agent::ToolSource, limits::TOOL_SCHEMA_BYTES, schema::check_usable};

use super::*;
use crate::openapi::tools;

fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A document whose operation takes the schema `Root` as its body.
fn with(schemas: Value) -> Value {
    json!({
        "openapi": "3.1.0",
        "servers": [{"url": "https://api.example.com"}],
        "components": {"schemas": schemas},
        "paths": {"/x": {"post": {"requestBody": {"content": {"application/json": {"schema": named("Root")}}}}}},
    })
}

fn with_paths(paths: Value) -> Value {
    json!({"openapi": "3.0.0", "servers": [{"url": "https://api.example.com"}], "paths": paths})
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

/// Each level refers to the next one several times.
fn bomb(levels: usize, times: usize) -> Value {
    let level = |n: usize| {
        let next = named(&if n + 1 == levels { "End".to_owned() } else { format!("L{}", n + 1) });
        object((0..times).map(|time| (format!("p{time}"), next.clone())).collect())
    };
    let mut schemas: Value = (0..levels).map(|n| (format!("L{n}"), level(n))).collect();
    schemas["Root"] = named("L0");
    schemas["End"] = json!({"type": "string"});
    schemas
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!({"type": "string"}), |inner, _| object(json!({"a": inner})))
}

fn chain(length: usize) -> Value {
    let mut schemas: Value = (0..length).map(|n| (format!("C{n}"), named(&format!("C{}", n + 1)))).collect();
    schemas["Root"] = named("C0");
    schemas[format!("C{length}")] = json!({"type": "string"});
    schemas
}

fn wide(count: usize) -> Value {
    object((0..count).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect())
}

fn cases() -> Vec<(&'static str, Value)> {
    let root = |schema: Value| with(json!({"Root": schema}));
    let parameter = |fields: Value| with_paths(json!({"/x": {"get": {"parameters": [fields]}}}));
    let many: Value = (0..10_000).map(|n| json!({"name": format!("p{n}"), "in": "query", "schema": {}})).collect();
    let wide_paths: Value = (0..200)
        .map(|n| {
            (
                format!("/{n}"),
                json!({"post": {"requestBody": {"content": {"application/json": {"schema": named("Root")}}}}}),
            )
        })
        .collect();
    let mut wide_shared = with(json!({"Root": wide(50_000)}));
    wide_shared["paths"] = wide_paths;
    let mut bomb_shared = with(bomb(30, 4));
    bomb_shared["paths"] = wide_shared["paths"].clone();
    vec![
        ("a schema that is itself", root(named("Root"))),
        ("two schemas that are each other", with(json!({"Root": named("B"), "B": named("Root")}))),
        ("a tree", root(object(json!({"children": {"type": "array", "items": named("Root")}})))),
        ("a circle in allOf", root(json!({"allOf": [named("Root"), {"type": "object"}]}))),
        ("a circle in oneOf", root(json!({"oneOf": [named("Root"), named("Root")]}))),
        ("a circle in not", root(json!({"not": named("Root")}))),
        ("a circle of additional properties", root(json!({"additionalProperties": named("Root")}))),
        ("a circle through a part of itself", root(object(json!({"a": named("Root/properties/a/properties/a")})))),
        ("a circle through the document", root(json!({"$ref": "#"}))),
        (
            "a circle through the paths",
            root(json!({"$ref": "#/paths/~1x/post/requestBody/content/application~1json/schema"})),
        ),
        ("a dynamic reference", root(json!({"$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}}))),
        ("a doubling of 30 levels", with(bomb(30, 2))),
        ("a tenfold of 15 levels", with(bomb(15, 10))),
        ("a fourfold of 30 levels, 200 times", bomb_shared),
        ("a chain of 1000 references", with(chain(1000))),
        ("100 levels of objects", root(nested(100))),
        ("50,000 properties, 200 times", wide_shared),
        ("100,000 values of an enum", root(json!({"enum": (0..100_000).collect::<Vec<_>>()}))),
        ("a description of 1 MB", root(json!({"description": "d".repeat(1_000_000)}))),
        ("a default of 1 MB", root(json!({"default": "d".repeat(1_000_000)}))),
        ("a name of 1 MB", root(object(json!({"n".repeat(1_000_000): {}})))),
        ("10,000 parameters", with_paths(json!({"/x": {"get": {"parameters": many}}}))),
        ("1000 patterns", root(object((0..1000).map(|n| (format!("p{n}"), json!({"pattern": "^(a+)+$"}))).collect()))),
        ("a pattern of 1 MB", root(json!({"pattern": "a".repeat(1_000_000)}))),
        ("a pattern that is large when compiled", root(json!({"pattern": "((a{100}){100}){100}"}))),
        ("a reference to the network", root(json!({"$ref": "http://169.254.169.254/latest/meta-data"}))),
        ("a reference to a file", root(json!({"$ref": "file:///etc/passwd#/a"}))),
        ("a relative reference", root(json!({"$ref": "other.json#/components/schemas/X"}))),
        ("a reference to nowhere", root(json!({"$ref": "#/components/schemas/Gone"}))),
        ("a reference with odd escapes", root(json!({"$ref": "#/%zz/~2/%00%ff"}))),
        ("a reference that is no text", root(json!({"$ref": {"a": 1}}))),
        (
            "a schema with an address",
            root(json!({"$id": "https://elsewhere/", "$schema": "https://elsewhere/meta", "$ref": "#x"})),
        ),
        ("parameters in a circle", {
            let mut document = parameter(json!({"$ref": "#/components/parameters/P"}));
            document["components"] = json!({"parameters": {"P": {"$ref": "#/components/parameters/P"}}});
            document
        }),
        ("a path in a circle", with_paths(json!({"/x": {"$ref": "#/paths/~1x"}, "/y": {"get": {}}}))),
        (
            "a body in a circle",
            with_paths(json!({"/x": {"post": {"requestBody": {"$ref": "#/paths/~1x/post/requestBody"}}}})),
        ),
        ("a parameter without a name", parameter(json!({"in": "query"}))),
        (
            "a parameter that is a header of the transport",
            parameter(json!({"name": "Transfer-Encoding", "in": "header"})),
        ),
        ("a parameter with line breaks", parameter(json!({"name": "X-A\r\nHost: evil", "in": "header"}))),
        ("a query with line breaks", parameter(json!({"name": "a\r\nb", "in": "query"}))),
        ("a path that climbs", with_paths(json!({"/../../{x}": {"get": {}}}))),
        (
            "a path that is a host",
            with_paths(json!({"//evil.example/{x}": {"get": {}}, "@evil.example/": {"get": {}}})),
        ),
        ("a path with spaces", with_paths(json!({"/a b\r\nHost: evil": {"get": {}}}))),
        (
            "a name of prototypes",
            with_paths(
                json!({"/x": {"get": {"operationId": "__proto__", "parameters": [{"name": "constructor", "in": "query"}]}}}),
            ),
        ),
        ("paths that are a list", with_paths(json!([{"get": {}}]))),
        ("operations that are texts", with_paths(json!({"/x": {"get": "x", "post": null, "parameters": 7}}))),
    ]
}

#[test]
fn every_document_gives_tools_of_bounded_size() {
    let cases = cases();
    for (what, document) in &cases {
        let tools = tools(document, &toolset(OpenApiSource::default())).unwrap();
        for tool in &tools {
            let schema = tool.schema();
            check_usable(&schema, TOOL_SCHEMA_BYTES).unwrap_or_else(|problem| panic!("{what}: {problem}"));
            assert!(!schema.to_string().contains("$ref"), "{what}: {schema}");
            assert!(tool.description.chars().count() <= 2001, "{what}");
            let ToolSource::Http(source) = &tool.source else { panic!("{what}") };
            assert!(source.url.starts_with("https://api.example.com/"), "{what}: {}", source.url);
        }
    }
    println!("hostile: {} documents", cases.len());
}

#[tokio::test]
async fn a_tool_of_a_hostile_path_stays_at_its_server() {
    for path in ["/../../{x}", "//evil.example/{x}", "/\\evil.example/{x}", "/{x}@evil.example/"] {
        let document = with_paths(json!({path: {"get": {}}}));
        let tools = tools(&document, &toolset(OpenApiSource::default())).unwrap();
        let ToolSource::Http(source) = &tools[0].source else { panic!("{path}") };
        let server = Server::start(vec![page("application/json", b"[]")]).await;
        let url = source.url.replace("https://api.example.com", &server.url(""));
        let source = HttpSource { url, ..(**source).clone() };
        let args = json!({"x": "../../@evil.example"}).into();
        let outcome = HttpTools::new(only_local()).call(&source, true, &context(), &args).await;
        assert_eq!(outcome.unwrap().result, json!([]), "{path}");
    }
}
