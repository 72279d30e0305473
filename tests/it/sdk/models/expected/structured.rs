//! Structured output.

use serde_json::{Value, json};

use super::{Look, TIDE, facts_of_schema, info, said, text};

pub(super) const ASKED: &[(&str, Look)] =
    &[("native_anthropic", form), ("native_openai", form), ("loose_openai", form), ("by_tool", form)];

pub(super) const REPAIRS: &[(&str, Look)] = &[("instructed", instructed), ("unrepaired", said), ("freely", said)];

/// How the form of the answer is asked for.
pub(super) fn form(request: &Value) -> Value {
    let fields = ["output_config", "text", "tools", "tool_choice"];
    fields
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), request.get(name)?.clone())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The instructions, and the conversation.
fn instructed(request: &Value) -> Value {
    json!([request["system"][0]["text"], said(request)])
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "celsius": {"type": "number"}},
        "required": ["city", "celsius"],
        "additionalProperties": false,
    })
}

pub(super) fn enforced() -> Value {
    let answer = |parsed: Value, mechanism: &str| json!({"parsed": parsed, "info": facts_of_schema(true, mechanism), "turns": 1});
    let (oslo, rome) = (json!({"city": "Oslo", "celsius": -4.5}), json!({"city": "Rome", "celsius": 21.5}));
    let openai = |schema: Value, strict: bool| {
        let format = json!({"type": "json_schema", "name": "report", "schema": schema, "strict": strict});
        json!([{"text": {"format": format}}])
    };
    let loose = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let tool = json!({"name": "report", "description": "Gives the final answer.", "input_schema": schema()});
    json!({
        "facts": {
            "native_anthropic": answer(oslo.clone(), "native_schema"),
            "native_openai": answer(rome, "native_schema"),
            // OpenAI enforces schemas whose objects are closed, and takes the others as a hint.
            "loose_openai": answer(json!({"city": "Rome"}), "none"),
            "by_tool": answer(oslo, "synthetic_tool"),
        },
        "asked": {
            "native_anthropic": [{"output_config": {"format": {"type": "json_schema", "schema": schema()}}}],
            "native_openai": openai(schema(), true),
            "loose_openai": openai(loose, false),
            "by_tool": [{
                "tools": [tool],
                "tool_choice": {"type": "tool", "name": "report", "disable_parallel_tool_use": true},
            }],
        },
    })
}

pub(super) fn repaired() -> Value {
    let facts = || facts_of_schema(true, "none");
    let report = "{\"city\":\"Oslo\",\"celsius\":-4.5}";
    let problem = "it is not JSON: expected value at line 1 column 1";
    let unrepaired = json!({
        "class": "structured_output_not_enforced", "code": "structured_output_not_enforced",
        "message": format!("The answer does not fit the output schema: {problem}"),
        "retryable": false, "partial": TIDE, "turns": 2, "status": null, "apiCode": null,
        "model": info("unrepaired:claude-sonnet-5-5"), "structured": facts(),
    });
    let told = format!(
        "Be brief.\n\nYour final answer must be one JSON document that matches this JSON Schema, without any other text \
         and without a code fence:\n{}",
        schema()
    );
    let first = json!([["user", [text("Oslo?")]]]);
    let again = format!(
        "Your answer does not match the JSON Schema that is required: {problem}\nAnswer again with only the JSON document."
    );
    let second = json!([["user", [text("Oslo?")]], ["assistant", [text(TIDE)]], ["user", [text(&again)]]]);
    json!({
        "facts": {
            "repaired": {"text": report, "turns": 2, "info": facts()},
            "history": [{"role": "user", "content": "Oslo?"}, {"role": "assistant", "content": report}],
            "unrepaired": unrepaired,
            "free": {"text": TIDE, "turns": 2, "info": facts()},
        },
        "asked": {
            "instructed": [[told, first], [told, second]],
            "unrepaired": [first, second],
            "freely": [first, second],
        },
    })
}

pub(super) fn rejected() -> Value {
    const CLASS: &str = "structured_output_schema_rejected";
    let message = "the provider answered 400: Invalid schema for response_format 'report': In context=('properties', \
                   'city'), 'foo' is not permitted.";
    let raised = json!({
        "class": CLASS, "code": CLASS, "message": message, "retryable": false, "partial": null, "turns": 1, "status": 400,
        "apiCode": "invalid_json_schema", "model": info("rejecting:gpt-5.5"), "structured": facts_of_schema(true, "none"),
    });
    let format = json!({"type": "json_schema", "name": "report", "schema": schema(), "strict": true});
    json!({"facts": {"raised": raised}, "asked": {"rejecting": [{"text": {"format": format}}]}})
}
