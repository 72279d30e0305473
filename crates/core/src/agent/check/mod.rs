//! The rules for a definition beyond its types. All problems are reported at once.
//!
//! Tools are checked in [`tools`], limits in [`limits`]; this file checks the agent itself and its sub-agents. Reading
//! files and naming lines is not done here: a [`Problem`] names its place by a JSON pointer.

mod limits;
mod nearest;
mod servers;
mod sources;
mod tools;

use std::{collections::BTreeMap, fmt};

pub(crate) use self::tools::{check_expiry, check_tags};
pub use self::{limits::check_policy, nearest::nearest, sources::check_sources};
use super::{AgentDefinition, ModelParameters, fits};
pub(super) use crate::schema::escape;
use crate::{
    approval::check_rules,
    ids::AgentId,
    limits::{AGENTS, DESCRIPTION_CHARS, NAME_CHARS, OUTPUT_SCHEMA_BYTES, TEXT_CHARS},
    run::MAX_DEPTH,
    schema::check_usable,
    secret,
};

/// One thing that is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Problem {
    /// A JSON pointer into the definition, for example `/tools/2/inputSchema`.
    pub path: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// Everything that is wrong with `definition` and its sub-agents; empty when it can run.
pub fn check(definition: &AgentDefinition) -> Vec<Problem> {
    let mut problems = Problems::default();
    let agents = count(definition);
    if agents > AGENTS {
        let message = format!("{agents} agents are too many; keep at most {AGENTS}, those below others included");
        problems.add(&Pointer::default().field("agents"), message);
        return problems.0;
    }
    // A definition that is too large is not checked any further.
    if let Err(problem) = fits(definition) {
        return vec![problem];
    }
    check_agent(definition, &Pointer::default(), &mut Vec::new(), &mut problems);
    problems.0
}

fn count(agent: &AgentDefinition) -> usize {
    1 + agent.agents.iter().map(count).sum::<usize>()
}

fn check_agent<'a>(
    agent: &'a AgentDefinition,
    at: &Pointer,
    ancestors: &mut Vec<&'a AgentId>,
    problems: &mut Problems,
) {
    if let Err(error) = AgentId::parse(agent.id.as_str()) {
        problems.add(&at.field("id"), error);
    }
    if ancestors.contains(&&agent.id) {
        problems.add(
            &at.field("id"),
            format!("agent {:?} is nested in itself; give this agent another id", agent.id.as_str()),
        );
    }
    check_model(&agent.model, &at.field("model"), problems);
    check_fallback(agent, &at.field("fallback"), problems);
    let texts = [
        ("name", agent.name.as_deref().unwrap_or_default(), NAME_CHARS),
        ("description", &agent.description, DESCRIPTION_CHARS),
        ("model", &agent.model, NAME_CHARS),
        ("systemPrompt", &agent.system_prompt, TEXT_CHARS),
    ];
    for (field, text, most) in texts {
        check_length(text, most, &at.field(field), problems);
    }
    if agent.credentials.as_ref().is_some_and(|reference| !secret::is_name(reference.name())) {
        // The text may be the secret itself, so it is not repeated.
        let message = format!(
            "this is not the name of a secret; write 1 to {} characters of A-Z a-z 0-9 _ . -",
            secret::NAME_CHARS
        );
        problems.add(&at.field("credentials"), message);
    }
    check_answer(agent, at, problems);
    tools::check(agent, at, problems);
    servers::check_toolsets(agent, at, problems);
    problems.0.extend(check_rules(&agent.approvals, &at.field("approvals").0));
    limits::check(agent, at, problems);
    check_sub_agents(agent, at, ancestors, problems);
}

pub(crate) fn check_length(text: &str, most: usize, at: &Pointer, problems: &mut Problems) {
    let chars = text.chars().count();
    if chars > most {
        problems.add(at, format!("this has {chars} characters; write at most {most}"));
    }
}

fn check_model(model: &str, at: &Pointer, problems: &mut Problems) {
    let word = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
    let shown: String = model.chars().take(NAME_CHARS).collect();
    let alias = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let valid = match model.split_once(':') {
        Some((provider, name)) => word(provider) && word(name),
        None => word(model) && alias(model),
    };
    if !valid {
        let message =
            format!("{shown:?} is not a model; write provider:model, for example \"script:demo\", or an alias");
        problems.add(at, message);
    }
}

/// The most fallback models of an agent. Each is asked with all its attempts.
const MAX_FALLBACKS: usize = 8;

fn check_fallback(agent: &AgentDefinition, at: &Pointer, problems: &mut Problems) {
    if agent.fallback.len() > MAX_FALLBACKS {
        problems.add(at, format!("these are {} models; write at most {MAX_FALLBACKS}", agent.fallback.len()));
    }
    for (index, model) in agent.fallback.iter().enumerate().take(MAX_FALLBACKS) {
        let at = at.index(index);
        check_model(model, &at, problems);
        check_length(model, NAME_CHARS, &at, problems);
        if *model == agent.model || agent.fallback[..index].contains(model) {
            problems.add(&at, "this model is asked before; name another one");
        }
    }
}

/// The highest reasoning level.
const MAX_REASONING: u8 = 100;

fn check_answer(agent: &AgentDefinition, at: &Pointer, problems: &mut Problems) {
    if agent.reasoning_level.is_some_and(|level| level > MAX_REASONING) {
        problems.add(&at.field("reasoningLevel"), format!("this must be 0 to {MAX_REASONING}"));
    }
    if let Some(decay) = &agent.reasoning_decay {
        let at = at.field("reasoningDecay");
        if !(0.0..=1.0).contains(&decay.factor) {
            problems.add(&at.field("factor"), "this must be a number from 0 to 1");
        }
        if agent.reasoning_level.is_none() {
            problems.add(&at, "this needs a reasoningLevel to fall from");
        }
    }
    check_parameters(&agent.parameters, &at.field("parameters"), problems);
    let Some(output) = &agent.output_schema else { return };
    let at = at.field("outputSchema");
    let word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if !(1..=64).contains(&output.name.len()) || !word(&output.name) {
        problems.add(&at.field("name"), "this must be 1 to 64 characters of A-Z a-z 0-9 _ -");
    }
    check_schema(&output.schema, OUTPUT_SCHEMA_BYTES, &at.field("schema"), problems);
}

fn check_parameters(parameters: &ModelParameters, at: &Pointer, problems: &mut Problems) {
    let fractions = [("temperature", parameters.temperature, 2.0), ("topP", parameters.top_p, 1.0)];
    for (field, value, most) in fractions {
        if value.is_some_and(|value| !(0.0..=most).contains(&value)) {
            problems.add(&at.field(field), format!("this must be a number from 0 to {most}"));
        }
    }
    if parameters.max_output_tokens == Some(0) {
        problems.add(&at.field("maxOutputTokens"), "this must be at least 1, or no turn could say anything");
    }
    for (index, sequence) in parameters.stop_sequences.iter().enumerate() {
        if sequence.is_empty() {
            problems.add(&at.field("stopSequences").index(index), "an empty sequence would stop every answer");
        }
    }
}

/// An unusable schema would fail runs after their model calls were paid.
fn check_schema(schema: &serde_json::Value, most: usize, at: &Pointer, problems: &mut Problems) {
    if let Err(unusable) = check_usable(schema, most) {
        problems.add(&Pointer(format!("{}{}", at.0, unusable.at)), unusable.problem);
    }
}

fn check_sub_agents<'a>(
    agent: &'a AgentDefinition,
    at: &Pointer,
    ancestors: &mut Vec<&'a AgentId>,
    problems: &mut Problems,
) {
    ancestors.push(&agent.id);
    let mut seen = BTreeMap::new();
    for (index, sub) in agent.agents.iter().enumerate() {
        let at = at.field("agents").index(index);
        if let Some(first) = seen.insert(&sub.id, index) {
            problems.add(
                &at.field("id"),
                format!("agent {:?} is already number {} of this list; give it another id", sub.id.as_str(), first + 1),
            );
        }
        if ancestors.len() > MAX_DEPTH as usize {
            problems.add(&at, format!("agents are nested more than {MAX_DEPTH} deep; move this one further up"));
        } else {
            check_agent(sub, &at, ancestors, problems);
        }
    }
    ancestors.pop();
}

/// The problems found so far.
#[derive(Default)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

/// Further problems do not help until the first ones are fixed.
const MAX_PROBLEMS: usize = 100;

impl Problems {
    pub(crate) fn full(&self) -> bool {
        self.0.len() >= MAX_PROBLEMS
    }

    pub(crate) fn add(&mut self, at: &Pointer, message: impl fmt::Display) {
        self.0.push(Problem { path: at.0.clone(), message: message.to_string() });
    }
}

/// A JSON pointer under construction.
#[derive(Clone, Default)]
pub(crate) struct Pointer(pub(crate) String);

impl Pointer {
    pub(crate) fn field(&self, name: &str) -> Self {
        Self(format!("{}/{}", self.0, escape(name)))
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        Self(format!("{}/{index}", self.0))
    }
}

#[cfg(test)]
mod tests;
