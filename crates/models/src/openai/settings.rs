//! The settings that both formats write alike.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::{
    canonical::Digest,
    event::EnforcementMechanism,
    ids::{RunId, ToolName},
};

use super::schema::is_strict;
use crate::{
    Effort, ModelRequest, ReasoningControl, ToolChoice,
    wire::{
        Output, Prepared,
        options::{Body, unless_empty},
    },
};

/// The key of both formats in the provider options of an agent.
pub(crate) const FORMAT: &str = "openai";

/// What counts of tokens consist of, for input or for output.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TokenDetails {
    pub(crate) cached_tokens: Option<u64>,
    pub(crate) cache_write_tokens: Option<u64>,
    pub(crate) reasoning_tokens: Option<u64>,
}

/// The tools and the choice among them. `function` writes a tool, `chosen` the choice of one by its name.
pub(crate) fn push_tools(
    body: &mut Body,
    request: &ModelRequest,
    prepared: &Prepared<'_>,
    function: impl Fn((String, &str, &Value)) -> Value,
    chosen: impl Fn(&str) -> Value,
) {
    let tools: Vec<Value> = prepared.declarations().map(function).collect();
    let choice = match (&prepared.output, request.tool_choice) {
        (Output::Tool { name, forced: true, .. }, _) => chosen(name),
        (_, ToolChoice::None) if !tools.is_empty() => "none".into(),
        _ => Value::Null,
    };
    body.push("tools", unless_empty(tools));
    body.push("tool_choice", choice);
}

pub(crate) fn push_sampling(body: &mut Body, request: &ModelRequest) {
    let (temperature, top_p) = request.sampling();
    body.push("temperature", temperature);
    body.push("top_p", top_p);
}

/// The form of the answer, if the provider is asked for it.
pub(crate) fn output_form(prepared: &Prepared<'_>) -> Option<Value> {
    let Output::Native(schema) = &prepared.output else { return None };
    let name = prepared.names.wire(&ToolName::new(&*schema.name));
    Some(json!({"name": name, "schema": schema.schema, "strict": is_strict(&schema.schema)}))
}

/// How hard the model is asked to think, in the provider's word.
pub(crate) fn effort(request: &ModelRequest) -> Option<&'static str> {
    let level = request.reasoning_level.filter(|_| request.spec.reasoning == ReasoningControl::Effort)?;
    Some(match Effort::of_level(level) {
        Effort::Off => "none",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    })
}

/// The longest cache key that OpenAI takes.
const LONGEST_KEY: usize = 64;

/// One key for all calls of a run and of its children, so that they reach the machine that has their prefix cached.
pub(crate) fn cache_key(run: &RunId) -> String {
    let root = run.as_str().split('/').next().unwrap_or_default();
    if root.len() <= LONGEST_KEY { root.to_owned() } else { Digest::of_bytes(root.as_bytes()).to_string() }
}

/// How the answer's form is enforced. A schema outside the strict subset is shown to the model and not enforced.
pub(crate) fn enforced(output: &Output<'_>) -> EnforcementMechanism {
    match output {
        Output::Native(schema) if !is_strict(&schema.schema) => EnforcementMechanism::None,
        output => output.enforced(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_and_its_children_have_one_cache_key_that_is_short_enough() {
        assert_eq!(cache_key(&"acme~run-1".into()), "acme~run-1");
        assert_eq!(cache_key(&"acme~run-1/call-0-1/call-2-0".into()), "acme~run-1");
        let long = cache_key(&RunId::new("r".repeat(65)));
        assert_eq!(long.len(), 64);
        assert_eq!(long, cache_key(&RunId::new(format!("{}/child", "r".repeat(65)))));
    }
}
