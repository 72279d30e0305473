//! A request's body: the settings, then the messages.

use serde_json::json;

use super::{Dialect, conversation};
use crate::{
    ModelError, ModelRequest,
    openai::{FORMAT, cache_key, effort, output_form, parameters_of, push_sampling, push_tools},
    wire::{
        options::{self, Body, unless_empty},
        prepare,
    },
};

pub(crate) fn body(request: &ModelRequest, dialect: Dialect) -> Result<String, ModelError> {
    let prepared = prepare(request);
    let (limit, cache_key) = match dialect {
        Dialect::OpenAi => ("max_completion_tokens", Some(cache_key(&request.run_id))),
        Dialect::Compatible => ("max_tokens", None),
    };
    let mut body = Body::default();
    body.push("model", request.model.as_str());
    push_tools(
        &mut body,
        request,
        &prepared,
        |(name, description, schema)| {
            let function = json!({"name": name, "description": description, "parameters": parameters_of(schema)});
            json!({"type": "function", "function": function})
        },
        |name| json!({"type": "function", "function": {"name": name}}),
    );
    let form = output_form(&prepared);
    body.push("response_format", form.map(|form| json!({"type": "json_schema", "json_schema": form})));
    body.push("reasoning_effort", effort(request));
    body.push(limit, request.output_limit());
    push_sampling(&mut body, request);
    body.push("stop", unless_empty(request.parameters.stop_sequences.clone()));
    body.push("prompt_cache_key", cache_key);
    body.push("stream", true);
    body.push("stream_options", json!({"include_usage": true}));
    body.lay_over(options::of(request, FORMAT));
    let messages = conversation::write(&prepared, &request.provider, dialect)?;
    Ok(body.to_json("messages", &format!("[{}]", messages.join(","))))
}
