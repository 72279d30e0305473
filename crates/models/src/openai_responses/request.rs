//! A request's body: the settings, then the input.

use serde_json::json;

use super::conversation;
use crate::{
    ModelError, ModelRequest, ReasoningControl,
    openai::{FORMAT, cache_key, effort, output_form, parameters_of, push_sampling, push_tools},
    wire::{
        options::{self, Body},
        prepare,
    },
};

pub(crate) fn body(request: &ModelRequest) -> Result<String, ModelError> {
    let prepared = prepare(request);
    let mut body = Body::default();
    body.push("model", request.model.as_str());
    body.push("instructions", Some(&*prepared.system).filter(|system| !system.is_empty()));
    push_tools(
        &mut body,
        request,
        &prepared,
        // Without `strict` the provider would change the schema: its default is to require every property.
        |(name, description, schema)| {
            json!({
                "type": "function",
                "name": name,
                "description": description,
                "parameters": parameters_of(schema),
                "strict": false,
            })
        },
        |name| json!({"type": "function", "name": name}),
    );
    let format = output_form(&prepared).map(|mut form| {
        form["type"] = "json_schema".into();
        json!({"format": form})
    });
    body.push("text", format);
    body.push("reasoning", effort(request).map(|effort| json!({"effort": effort, "summary": "auto"})));
    let reasons = request.spec.reasoning != ReasoningControl::None;
    body.push("include", reasons.then(|| json!(["reasoning.encrypted_content"])));
    body.push("max_output_tokens", request.output_limit());
    push_sampling(&mut body, request);
    body.push("prompt_cache_key", cache_key(&request.run_id));
    body.push("store", false);
    body.push("stream", true);
    body.lay_over(options::of(request, FORMAT));
    let items = conversation::write(&prepared, &request.provider)?;
    Ok(body.to_json("input", &format!("[{}]", items.join(","))))
}
