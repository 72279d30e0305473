//! Our adapter's answer in the form in which the oracle reports what an SDK read.

use serde_json::{Map, Value, json};
use windlass_core::{
    ids::ToolName,
    message::{Content, Part},
};
use windlass_models::{ModelError, ModelRequest, ModelResponse, StructuredOutputControl, wire::ToolNames};

/// Blocks, usage and the response's id. The stop reason is compared apart, because vendors have their own words.
pub(super) fn response(request: &ModelRequest, response: &ModelResponse) -> Value {
    let names = names(request);
    let blocks: Vec<Value> = response.parts.iter().map(|part| block(part, &names)).collect();
    let mut usage = json!(response.usage);
    let model = usage["model"].take();
    usage.as_object_mut().unwrap().remove("model");
    let model = model.as_str().and_then(|model| model.split_once(':')).map(|(_, model)| model.to_owned());
    json!({"blocks": blocks, "usage": usage, "responseId": response.response_id, "model": model})
}

/// What both sides say about a failure.
pub(super) fn error(error: &ModelError) -> Value {
    without_nulls(json!({
        "status": error.api_status,
        "code": error.api_code,
        "retryAfterMs": error.retry_after.map(|wait| wait.as_millis()),
    }))
}

fn names(request: &ModelRequest) -> ToolNames {
    let answer = answer_tool(request).map(ToolName::new);
    ToolNames::new(answer.iter().chain(request.tools.iter().map(|tool| &tool.name)))
}

/// The tool whose arguments are the answer. An SDK knows nothing of it and reads a call.
pub(super) fn answer_tool(request: &ModelRequest) -> Option<&str> {
    let schema = request.output_schema.as_ref()?;
    (request.spec.structured_output == StructuredOutputControl::Tool).then_some(schema.name.as_str())
}

fn block(part: &Part, names: &ToolNames) -> Value {
    let mut block = match &part.content {
        Content::Text { text } => json!({"kind": "text", "text": text}),
        Content::Citations { text, citations } => {
            let cited = citations.iter().map(|one| without_nulls(json!({"title": one.title, "source": one.source})));
            json!({"kind": "text", "text": text, "citations": cited.collect::<Vec<_>>()})
        }
        Content::Thinking { redacted: Some(data), .. } => json!({"kind": "redacted", "data": data}),
        Content::Thinking { text, signature, .. } => json!({"kind": "thinking", "text": text, "signature": signature}),
        Content::ToolUse { id, name, input } => {
            let arguments = match input.to_value() {
                Value::String(text) => json!({"unreadable": text}),
                other => other,
            };
            json!({"kind": "call", "id": id, "name": names.wire(name), "arguments": arguments})
        }
        Content::ProviderTool { name, input, output } => {
            let json = |json: &Option<_>| json.as_ref().map(windlass_core::canonical::CanonicalJson::to_value);
            json!({"kind": "provider_tool", "name": name, "input": json(input), "output": json(output)})
        }
        Content::Other { kind } => json!({"kind": "other", "type": kind}),
        other => json!({"kind": other.kind()}),
    };
    if let Some(item) = &part.provider_item {
        block["item"] = serde_json::from_str(&item.item).expect("a provider item is JSON");
    }
    without_nulls(block)
}

pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
