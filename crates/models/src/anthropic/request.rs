//! The body of a request. What is stable comes first, the messages come last.

use serde_json::{Map, Value, json};

use super::{FORMAT, media::is_blank, messages, thinking};
use crate::{
    ModelError, ModelRequest, ToolChoice,
    wire::{
        Output, Prepared,
        options::{self, Body, unless_empty},
        prepare,
    },
};

/// The most cache breakpoints of one request.
const BREAKPOINTS: usize = 4;
const CACHE_CONTROL: &str = "cache_control";

pub(super) fn body(request: &ModelRequest) -> Result<String, ModelError> {
    let prepared = prepare(request);
    let conversation = messages::write(&prepared, &request.provider)?;
    let thinking = thinking::of(request, conversation.answers_calls_without_thinking());
    let system: Vec<Value> = std::iter::once(&*prepared.system)
        .chain(conversation.system.iter().map(String::as_str))
        .filter(|text| !is_blank(text))
        .map(|text| json!({"type": "text", "text": text}))
        .collect();

    let mut body = Body::default();
    body.push("model", request.model.as_str());
    body.push("tools", unless_empty(tools(&prepared)));
    body.push("system", unless_empty(system));
    body.push("max_tokens", thinking.max_tokens);
    body.push("stream", true);
    // The automatic breakpoint, which the provider moves along with the conversation.
    body.push(CACHE_CONTROL, json!({"type": "ephemeral"}));
    body.push("thinking", thinking.config);
    body.push("output_config", output_config(&prepared.output, thinking.effort));
    body.push("stop_sequences", unless_empty(request.parameters.stop_sequences.clone()));
    body.push("tool_choice", tool_choice(request, &prepared, thinking.on));
    body.lay_over(options::of(request, FORMAT));

    // One value marks all breakpoints, because the API refuses a longer time to live behind a shorter one. The option
    // `"cache_control": null` switches caching off.
    let Some(marker) = body.get_mut(CACHE_CONTROL).cloned() else {
        return Ok(body.to_json("messages", &conversation.to_json(None, 0)));
    };
    let fixed = 1 + usize::from(mark_stable_prefix(&mut body, &marker));
    Ok(body.to_json("messages", &conversation.to_json(Some(&marker), BREAKPOINTS - fixed)))
}

/// Marks the end of what is the same in every request of an agent: the system prompt, or the tools if there is none.
/// Runs of the same agent share that prefix.
fn mark_stable_prefix(body: &mut Body, marker: &Value) -> bool {
    for name in ["system", "tools"] {
        if let Some(Value::Object(last)) =
            body.get_mut(name).and_then(Value::as_array_mut).and_then(|all| all.last_mut())
        {
            last.entry(CACHE_CONTROL).or_insert_with(|| marker.clone());
            return true;
        }
    }
    false
}

fn tools(prepared: &Prepared<'_>) -> Vec<Value> {
    let tool = |(name, description, schema): (String, &str, &Value)| {
        let mut tool = json!({"name": name, "input_schema": object_schema(schema)});
        if !is_blank(description) {
            tool["description"] = description.into();
        }
        tool
    };
    let mut tools: Vec<Value> = prepared.declarations().map(tool).collect();
    tools.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    tools
}

/// The API wants the type to be named.
fn object_schema(schema: &Value) -> Value {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema.entry("type").or_insert_with(|| "object".into());
    schema.into()
}

fn output_config(output: &Output<'_>, effort: Option<&str>) -> Option<Map<String, Value>> {
    let mut config = Map::new();
    if let Some(effort) = effort {
        config.insert("effort".to_owned(), effort.into());
    }
    if let Output::Native(schema) = output {
        config.insert("format".to_owned(), json!({"type": "json_schema", "schema": schema.schema}));
    }
    (!config.is_empty()).then_some(config)
}

/// `None` is the default of the API: the model decides. That is also what is left while the model thinks, because the API
/// then refuses to force a tool.
fn tool_choice(request: &ModelRequest, prepared: &Prepared<'_>, thinking: bool) -> Option<Value> {
    match &prepared.output {
        Output::Tool { name, forced: true, .. } => {
            (!thinking).then(|| json!({"type": "tool", "name": name, "disable_parallel_tool_use": true}))
        }
        _ if request.tool_choice == ToolChoice::None && !prepared.tools.is_empty() => Some(json!({"type": "none"})),
        _ => None,
    }
}
