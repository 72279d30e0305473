//! Documents as toolsets.

mod documents;
mod schemas;
mod servers;

use serde_json::{Value, json};
use windlass_core::{
    agent::{HttpAccess, HttpSource, OpenApiSource, ResolvedToolset, ToolSource, ToolSpec, Toolset},
    limits::TOOL_SCHEMA_BYTES,
    schema::{check_usable, coerce_and_validate},
};

use super::{OpenApiError, tools};

fn toolset(source: OpenApiSource) -> Toolset {
    Toolset { name: "pets".into(), openapi: Some(source), ..Toolset::default() }
}

/// A document with these paths.
fn document(paths: Value) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Pets", "version": "2.1"},
        "servers": [{"url": "https://api.example.com/v1/"}],
        "paths": paths,
    })
}

fn tools_of(document: &Value) -> Vec<ToolSpec> {
    tools(document, &toolset(OpenApiSource::default())).unwrap()
}

fn only_tool(document: &Value) -> ToolSpec {
    let mut tools = tools_of(document);
    assert_eq!(tools.len(), 1);
    tools.remove(0)
}

fn http(tool: &ToolSpec) -> &HttpSource {
    match &tool.source {
        ToolSource::Http(source) => source,
        other => panic!("{other:?}"),
    }
}

/// The schema that the body of an operation gets.
fn body_schema(mut document: Value, schema: Value) -> Value {
    document["paths"] = json!({"/x": {"post": {"requestBody": {"content": {"application/json": {"schema": schema}}}}}});
    let tool = only_tool(&document);
    let whole = tool.schema();
    check_usable(&whole, TOOL_SCHEMA_BYTES).unwrap();
    whole["properties"]["body"].clone()
}

fn components(schemas: Value) -> Value {
    let mut document = document(json!({}));
    document["components"] = json!({"schemas": schemas});
    document
}
