//! A server's tools as tools of an agent.

use std::collections::HashSet;

use rmcp::model::{JsonObject, Tool};
use serde_json::Value;
use windlass_core::{
    agent::{McpSource, ToolSource, ToolSpec, Toolset},
    ids::ToolName,
    limits::{DESCRIPTION_CHARS, TOOL_SCHEMA_BYTES},
    schema::check_usable,
};

/// The tools that the toolset wants. One whose arguments cannot be checked is left out.
pub(super) fn of_tools(tools: &[Tool], toolset: &Toolset) -> Vec<ToolSpec> {
    let mut taken = HashSet::new();
    let mut specs = Vec::new();
    for tool in tools.iter().filter(|tool| !tool.name.is_empty() && toolset.wants(&tool.name)) {
        match of_tool(tool, toolset) {
            Ok(mut spec) => {
                spec.name = unique(spec.name, &taken);
                taken.insert(spec.name.clone());
                specs.push(spec);
            }
            Err(problem) => {
                let (toolset, tool) = (&toolset.name, &*tool.name);
                tracing::warn!(toolset, tool, problem, "a tool is left out because of its input schema");
            }
        }
    }
    specs
}

fn of_tool(tool: &Tool, toolset: &Toolset) -> Result<ToolSpec, String> {
    let input_schema = input_schema(&tool.input_schema)?;
    let source = McpSource { toolset: toolset.name.clone(), tool: tool.name.to_string() };
    let mut spec = ToolSpec::new(toolset.tool_name(&tool.name), ToolSource::Mcp(source));
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
    spec.description = description.chars().take(DESCRIPTION_CHARS).collect();
    spec.input_schema = Some(input_schema);
    spec.output_schema = tool.output_schema.as_ref().map(|schema| Value::Object((**schema).clone())).filter(|schema| {
        let usable = check_usable(schema, TOOL_SCHEMA_BYTES);
        if let Err(problem) = &usable {
            let (toolset, tool) = (&toolset.name, &*tool.name);
            tracing::warn!(toolset, tool, %problem, "results of a tool are not checked because of its output schema");
        }
        usable.is_ok()
    });
    let hints = tool.annotations.clone().unwrap_or_default();
    let read_only = hints.read_only_hint == Some(true);
    spec.idempotent = read_only || hints.idempotent_hint == Some(true);
    let tags = [(read_only, "read_only"), (hints.destructive_hint == Some(true), "destructive")];
    spec.tags = tags.iter().filter(|(holds, _)| *holds).map(|(_, tag)| (*tag).to_owned()).collect();
    toolset.apply(&mut spec);
    Ok(spec)
}

/// Arguments are always an object, also where a server leaves that out.
fn input_schema(schema: &JsonObject) -> Result<Value, String> {
    let mut schema = schema.clone();
    let kind = schema.entry("type").or_insert_with(|| "object".into());
    if kind != "object" {
        return Err("the type of the arguments is not \"object\"".to_owned());
    }
    let schema = Value::Object(schema);
    check_usable(&schema, TOOL_SCHEMA_BYTES).map_err(|problem| problem.to_string())?;
    Ok(schema)
}

/// The name, or the name with a number if a tool before has it.
fn unique(name: ToolName, taken: &HashSet<ToolName>) -> ToolName {
    let numbered = (2..).map(|number| {
        let suffix = format!("_{number}");
        let room = ToolName::MAX_CHARS - suffix.len();
        // Names of tools are ASCII.
        ToolName::new(format!("{}{suffix}", &name.as_str()[..name.as_str().len().min(room)]))
    });
    std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or(name)
}
