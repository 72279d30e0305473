//! Completing the tools that a definition only names, from the specs of the process's own: built-in and configured ones.
//!
//! A definition is stored by its digest, so it is completed by the process that stores it first. The worker completes
//! definitions too, for clients that send them as they are written; a complete one stays as it is and keeps its digest.

use super::{AgentDefinition, ToolSource, ToolSpec};
use crate::ids::{AgentId, ToolName};

/// A built-in tool that a process does not have, and the agent that uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingBuiltin {
    pub agent: AgentId,
    pub tool: ToolName,
}

impl AgentDefinition {
    /// Completes the built-in tools of this agent and its sub-agents from their specs. A tool without a spec is left as it
    /// is and reported.
    pub fn complete_builtins(&mut self, spec: &dyn Fn(&ToolName) -> Option<ToolSpec>) -> Vec<MissingBuiltin> {
        let mut missing = Vec::new();
        for tool in self.tools.iter_mut().filter(|tool| tool.source == ToolSource::Builtin) {
            match spec(&tool.name) {
                Some(spec) => tool.complete(spec),
                None => missing.push(MissingBuiltin { agent: self.id.clone(), tool: tool.name.clone() }),
            }
        }
        missing.extend(self.agents.iter_mut().flat_map(|agent| agent.complete_builtins(spec)));
        missing
    }
}

impl ToolSpec {
    /// Takes what the definition leaves out from the tool's own spec. Of a configured tool that includes where it comes
    /// from.
    fn complete(&mut self, own: Self) {
        self.source = own.source;
        self.output_schema = self.output_schema.take().or(own.output_schema);
        self.confirmation = self.confirmation.take().or(own.confirmation);
        self.max_output_bytes = self.max_output_bytes.or(own.max_output_bytes);
        if self.description.is_empty() {
            self.description = own.description;
        }
        if self.tags.is_empty() {
            self.tags = own.tags;
        }
        self.input_schema = self.input_schema.take().or(own.input_schema);
        self.timeout_ms = self.timeout_ms.or(own.timeout_ms);
        self.idempotent |= own.idempotent;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::canonical::Digest;

    fn clock(name: &ToolName) -> Option<ToolSpec> {
        (name.as_str() == "clock").then(|| ToolSpec {
            description: "Tells the time.".to_owned(),
            input_schema: Some(json!({"type": "object"})),
            tags: vec!["read".to_owned()],
            timeout_ms: Some(crate::time::Millis(500)),
            idempotent: true,
            ..ToolSpec::new(name.clone(), ToolSource::Builtin)
        })
    }

    fn definition(tools: serde_json::Value) -> AgentDefinition {
        serde_json::from_value(json!({"id": "a", "model": "script:demo", "tools": tools})).unwrap()
    }

    #[test]
    fn a_definition_keeps_what_it_says_and_takes_the_rest_from_the_tool() {
        let mut given = definition(json!([
            {"name": "clock", "description": "Local time."},
            {"name": "sign", "kind": "external"},
        ]));
        assert_eq!(given.complete_builtins(&clock), []);
        let expected = definition(json!([
            {"name": "clock", "description": "Local time.", "inputSchema": {"type": "object"}, "tags": ["read"],
             "timeoutMs": 500, "idempotent": true},
            {"name": "sign", "kind": "external"},
        ]));
        assert_eq!(given, expected);
    }

    #[test]
    fn a_configured_tool_is_named_and_pinned_as_it_is_configured() {
        let tide: ToolSpec = serde_json::from_value(json!({
            "name": "tide", "kind": "http", "http": {"url": "https://tide.example.com"},
            "confirmation": {"prompt": "Look?"}, "maxOutputBytes": 10, "outputSchema": {"type": "object"},
        }))
        .unwrap();
        let mut given = definition(json!([{"name": "tide", "description": "Own words."}]));
        assert_eq!(given.complete_builtins(&|name| (*name == tide.name).then(|| tide.clone())), []);
        let expected = ToolSpec { description: "Own words.".to_owned(), ..tide };
        assert_eq!(given.tools, [expected]);
    }

    #[test]
    fn a_complete_definition_keeps_its_digest() {
        let mut given = definition(json!([{"name": "clock"}]));
        given.agents.push(definition(json!([{"name": "clock", "tags": ["own"]}])));
        let incomplete = Digest::of(&given).unwrap();
        given.complete_builtins(&clock);
        let complete = Digest::of(&given).unwrap();
        given.complete_builtins(&clock);
        assert_eq!(Digest::of(&given).unwrap(), complete);
        assert_ne!(incomplete, complete);
    }

    #[test]
    fn a_missing_tool_is_reported_with_its_agent_and_left_as_it_is() {
        let mut given = definition(json!([{"name": "clock"}]));
        let inner = definition(json!([{"name": "hammer"}]));
        given.agents.push(AgentDefinition { id: "inner".into(), ..inner });
        let before = given.agents.clone();
        assert_eq!(given.complete_builtins(&clock), [MissingBuiltin { agent: "inner".into(), tool: "hammer".into() }]);
        assert_eq!(given.agents, before);
    }
}
