//! The body of a request. What is stable comes first; the conversation is last.

use serde_json::{Map, Value, json};
use windlass_core::message::{Message, Role, plain_text};

use super::contents::contents;
use crate::{
    Effort, ModelError, ModelRequest, ReasoningControl, ToolChoice, thinking_budget,
    wire::{
        Output, Prepared,
        options::{self, Body},
        prepare,
    },
};

pub(super) fn body(request: &ModelRequest) -> Result<String, ModelError> {
    let prepared = prepare(request);
    let (leading, messages) = split_system(&prepared.messages);
    let mut body = Body::default();
    body.push("tools", tools(&prepared));
    body.push("systemInstruction", system_instruction(&prepared.system, leading));
    body.push("toolConfig", tool_config(request, &prepared));
    body.push("generationConfig", generation_config(request, &prepared.output));
    body.lay_over(options::of(request, "gemini"));
    Ok(body.to_json("contents", &contents(request, &prepared.names, messages)?))
}

/// System messages at the beginning belong to the system prompt.
fn split_system(messages: &[Message]) -> (&[Message], &[Message]) {
    let first = messages.iter().position(|message| message.role != Role::System).unwrap_or(messages.len());
    messages.split_at(first)
}

fn system_instruction(system: &str, leading: &[Message]) -> Value {
    let texts = leading.iter().map(|message| plain_text(&message.parts));
    let parts: Vec<Value> = std::iter::once(system.to_owned())
        .chain(texts)
        .filter(|text| !text.is_empty())
        .map(|text| json!({"text": text}))
        .collect();
    if parts.is_empty() { Value::Null } else { json!({"parts": parts}) }
}

fn tools(prepared: &Prepared<'_>) -> Value {
    let mut declared: Vec<Value> = prepared
        .declarations()
        .map(|(name, description, schema)| json!({"name": name, "description": description, "parametersJsonSchema": schema}))
        .collect();
    declared.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    if declared.is_empty() { Value::Null } else { json!([{"functionDeclarations": declared}]) }
}

fn tool_config(request: &ModelRequest, prepared: &Prepared<'_>) -> Value {
    let config = match &prepared.output {
        Output::Tool { name, forced: true, .. } => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
        _ if request.tool_choice == ToolChoice::None && !prepared.tools.is_empty() => json!({"mode": "NONE"}),
        _ => return Value::Null,
    };
    json!({"functionCallingConfig": config})
}

fn generation_config(request: &ModelRequest, output: &Output<'_>) -> Value {
    let (parameters, spec) = (&request.parameters, &request.spec);
    let mut config = Map::new();
    let (temperature, top_p) = request.sampling();
    set(&mut config, "maxOutputTokens", json!(request.output_limit()));
    set(&mut config, "temperature", json!(temperature));
    set(&mut config, "topP", json!(top_p));
    if !parameters.stop_sequences.is_empty() {
        set(&mut config, "stopSequences", json!(parameters.stop_sequences));
    }
    if let Output::Native(schema) = output {
        set(&mut config, "responseMimeType", json!("application/json"));
        set(&mut config, "responseJsonSchema", schema.schema.clone());
    }
    if let Some(level) = request.reasoning_level {
        set(&mut config, "thinkingConfig", thinking(&request.model, spec.reasoning, level));
    }
    if config.is_empty() { Value::Null } else { Value::Object(config) }
}

fn thinking(model: &str, control: ReasoningControl, level: u8) -> Value {
    // Pro models always think: they refuse a budget of 0 and the level MINIMAL.
    let always = model.contains("-pro");
    match (control, Effort::of_level(level)) {
        (ReasoningControl::None, _) => Value::Null,
        (ReasoningControl::Effort, effort) => {
            let word = match effort {
                Effort::Off if !always => "MINIMAL",
                Effort::Off | Effort::Low => "LOW",
                Effort::Medium => "MEDIUM",
                Effort::High => "HIGH",
            };
            json!({"thinkingLevel": word, "includeThoughts": true})
        }
        // Thoughts cannot be asked for while thinking is off.
        (ReasoningControl::Budget, Effort::Off) if !always => json!({"thinkingBudget": 0}),
        (ReasoningControl::Budget, _) => {
            // Below these Google refuses a budget.
            let least = if model.contains("flash-lite") { 512 } else { 128 };
            json!({"thinkingBudget": thinking_budget(level).max(least), "includeThoughts": true})
        }
    }
}

/// Absent rather than null.
fn set(object: &mut Map<String, Value>, name: &str, value: Value) {
    if !value.is_null() {
        object.insert(name.to_owned(), value);
    }
}
