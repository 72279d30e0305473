//! Specs: what a run, a session or a message requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::{
    agent::AgentDefinition,
    envelope::{Labels, PolicyOverrides},
    ids::{AgentId, RunId, SessionId},
};

/// Settings of a run, which a message of a session may override for its run.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// References to tools of the server, such as `{"kind": "mantyx", "id": "clock"}`; the caller's own are [`crate::Tools`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<OutputSchema>,
    /// `false`, or an object of thresholds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_detection: Option<Value>,
    /// How often a tool may be called, by its name.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "budgets")]
    pub tool_budgets: Option<BTreeMap<String, u32>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

fn budgets<S: serde::Serializer>(budgets: &Option<BTreeMap<String, u32>>, serializer: S) -> Result<S::Ok, S::Error> {
    let budgets = budgets.iter().flatten().map(|(tool, calls)| (tool, json!({"maxCalls": calls})));
    serializer.collect_map(budgets)
}

/// The reasoning effort of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    Off,
    Low,
    Medium,
    High,
    /// From 0 (off) to 100.
    #[serde(untagged)]
    Level(u8),
}

/// The schema of the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A JSON Schema.
    pub schema: Value,
    /// `strict` fails a run whose answer does not match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<String>,
}

impl OutputSchema {
    pub fn strict(schema: Value) -> Self {
        Self { name: None, schema, enforcement: Some("strict".to_owned()) }
    }

    pub fn best_effort(schema: Value) -> Self {
        Self { name: None, schema, enforcement: Some("best_effort".to_owned()) }
    }
}

/// An agent: one that the server knows, or one that is described here. Also the spec of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    #[serde(rename = "budgets", skip_serializing_if = "Option::is_none", serialize_with = "tool_turns")]
    pub max_tool_turns: Option<u32>,
    #[serde(flatten)]
    pub settings: Settings,
}

fn tool_turns<S: serde::Serializer>(turns: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    json!({"maxToolTurns": turns}).serialize(serializer)
}

/// The input of the agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Said {
    Prompt(String),
    Messages(Vec<SaidMessage>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SaidMessage {
    /// `system`, `user` or `assistant`.
    pub role: String,
    pub content: String,
    /// In the protocol's JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Value>,
}

impl SaidMessage {
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), attachments: Vec::new() }
    }
}

/// A run to start.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSpec {
    #[serde(flatten)]
    pub said: Said,
    #[serde(flatten)]
    pub agent: AgentSpec,
    /// The run's id, if the caller chooses it; the client chooses one otherwise. The same start with the same id finds the
    /// run of the first one; another start with it is refused with `run_exists`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The conversation the run continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The whole agent, instead of one that the server knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<Box<AgentDefinition>>,
    /// Limits of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyOverrides>,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// The next message of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MessageSpec {
    #[serde(flatten)]
    pub said: Said,
    /// Overrides for the run that answers this message.
    #[serde(flatten)]
    pub settings: Settings,
}

impl MessageSpec {
    pub fn new(prompt: impl Into<String>) -> Self {
        Self { said: Said::Prompt(prompt.into()), settings: Settings::default() }
    }
}

impl RunSpec {
    pub fn new(prompt: impl Into<String>) -> Self {
        Self::of(Said::Prompt(prompt.into()))
    }

    pub fn of(said: Said) -> Self {
        Self {
            said,
            agent: AgentSpec::default(),
            run_id: None,
            session_id: None,
            definition: None,
            policy: None,
            labels: Labels::new(),
        }
    }

    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.agent.system_prompt = Some(text.into());
        self
    }

    #[must_use]
    pub fn agent(mut self, id: impl Into<AgentId>) -> Self {
        self.agent.agent_id = Some(id.into());
        self
    }

    #[must_use]
    pub fn model(mut self, id: impl Into<String>) -> Self {
        self.agent.model_id = Some(id.into());
        self
    }

    #[must_use]
    pub fn output_schema(mut self, schema: OutputSchema) -> Self {
        self.agent.settings.output_schema = Some(schema);
        self
    }

    #[must_use]
    pub fn reasoning(mut self, level: Reasoning) -> Self {
        self.agent.settings.reasoning_level = Some(level);
        self
    }

    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.agent.settings.metadata.insert(key.into(), value.into());
        self
    }

    #[must_use]
    pub fn run_id(mut self, id: impl Into<RunId>) -> Self {
        self.run_id = Some(id.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_are_not_sent() {
        assert_eq!(serde_json::to_value(RunSpec::new("hi")).unwrap(), json!({"prompt": "hi"}));
        assert_eq!(serde_json::to_value(MessageSpec::new("hi")).unwrap(), json!({"prompt": "hi"}));
    }

    #[test]
    fn a_spec_is_written_as_the_protocol_has_it() {
        let mut spec = RunSpec::of(Said::Messages(vec![SaidMessage::new("user", "hi")]))
            .system_prompt("s")
            .agent("desk")
            .model("script:echo")
            .output_schema(OutputSchema::strict(json!({"type": "object"})))
            .reasoning(Reasoning::High)
            .metadata("team", "core")
            .run_id("run-1");
        spec.agent.max_tool_turns = Some(7);
        spec.agent.settings.tool_budgets = Some([("probe".to_owned(), 2)].into());
        let expected = json!({
            "messages": [{"role": "user", "content": "hi"}],
            "systemPrompt": "s", "agentId": "desk", "modelId": "script:echo",
            "outputSchema": {"schema": {"type": "object"}, "enforcement": "strict"},
            "reasoningLevel": "high", "metadata": {"team": "core"}, "runId": "run-1",
            "budgets": {"maxToolTurns": 7}, "toolBudgets": {"probe": {"maxCalls": 2}},
        });
        assert_eq!(serde_json::to_value(&spec).unwrap(), expected);
        spec.agent.settings.reasoning_level = Some(Reasoning::Level(42));
        assert_eq!(serde_json::to_value(&spec).unwrap()["reasoningLevel"], 42);
    }
}
