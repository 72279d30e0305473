mod arbitrary;
mod bodies;
mod definitions;
mod recorded;
mod toolrefs;

use serde_json::{Value, json};
use windlass_core::{
    agent::{AgentDefinition, ToolSource, ToolSpec},
    ids::AgentId,
    time::Millis,
};

use super::{Accepted, Spec, SpecError, Surroundings, Toolbox, parse_run};
use crate::models::{Catalogue, ModelInfo};

const TIMEOUT: Millis = Millis::from_secs(300);

fn models() -> Catalogue {
    let models = ["demo", "echo"].map(|name| ModelInfo::of("script", name)).into();
    Catalogue { models, default_model_id: Some("script:demo".into()), ..Catalogue::default() }
}

fn clock() -> ToolSpec {
    ToolSpec { description: "Tells the time.".into(), ..ToolSpec::new("clock".into(), ToolSource::Builtin) }
}

/// Resolves on a server with two scripts, a clock and these agents.
fn resolve_among(
    agents: &[AgentDefinition],
    bound_to: Option<&[AgentId]>,
    spec: &Spec,
    system: &[String],
) -> Result<AgentDefinition, SpecError> {
    let builtins = [clock()];
    let toolbox = Toolbox { builtins: &builtins, local_tool_timeout: TIMEOUT };
    let around = Surroundings { models: &models(), agents, toolbox, bound_to };
    spec.resolve(system, None, around).map(|effective| effective.definition)
}

fn resolve(body: &Value) -> Result<AgentDefinition, SpecError> {
    let Accepted { spec, conversation, .. } = parse_run(body)?;
    resolve_among(&[], None, &spec, &conversation.system)
}

/// A body that says what is asked of it and nothing else.
fn with(key: &str, value: Value) -> Value {
    let mut body = json!({"systemPrompt": "s", "prompt": "p"});
    body[key] = value;
    body
}

/// What is wrong with a body, or nothing.
fn complaint(body: &Value) -> Option<String> {
    resolve(body).err().map(|error| error.to_string())
}
