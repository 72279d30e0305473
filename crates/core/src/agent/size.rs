//! Size limits of an agent's definition.
//!
//! A definition is kept in the store, but what deciding needs of it travels through the run's history: the table of its
//! tools and its policy. A server rejects a history event that is too large and ends the run without a reason, so
//! the sizes are checked when an agent is submitted.

use serde::Serialize;

use super::{AgentDefinition, Problem, ToolTable};
use crate::limits::{AGENT_BYTES, TABLE_BYTES, TOOLS};

/// Whether runs of the agent, and of those below it, can carry it; the problem names the limit that it exceeds.
pub fn fits(definition: &AgentDefinition) -> Result<(), Problem> {
    let bytes = bytes(definition);
    if bytes > AGENT_BYTES {
        return Err(problem("", format!("the agent is {bytes} bytes of JSON; keep at most {AGENT_BYTES}")));
    }
    carried(definition, "")
}

fn carried(definition: &AgentDefinition, at: &str) -> Result<(), Problem> {
    let tools = definition.tools.len();
    if tools > TOOLS {
        return Err(problem(&format!("{at}/tools"), format!("{tools} tools are too many; keep at most {TOOLS}")));
    }
    // A definition is built from JSON types, so its table can be made.
    let table = ToolTable::of(definition).map_or(0, |table| bytes(&table));
    let taken = table + bytes(&definition.policy) + bytes(&definition.guards);
    if taken > TABLE_BYTES {
        let message = format!(
            "names, tags, timeouts and confirmations of the tools and the policy are {taken} bytes of JSON; a run \
             carries at most {TABLE_BYTES}"
        );
        return Err(problem(&format!("{at}/tools"), message));
    }
    let mut below = definition.agents.iter().enumerate();
    below.try_for_each(|(index, agent)| carried(agent, &format!("{at}/agents/{index}")))
}

fn problem(path: &str, message: String) -> Problem {
    Problem { path: path.to_owned(), message }
}

fn bytes(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |text| text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent(tools: usize, prompt: usize) -> AgentDefinition {
        let confirmation = json!({"prompt": "p".repeat(prompt)});
        let tools: Vec<_> =
            (0..tools).map(|index| json!({"name": format!("t{index}"), "confirmation": confirmation})).collect();
        serde_json::from_value(json!({"id": "a", "model": "m:n", "tools": tools})).unwrap()
    }

    #[test]
    fn an_agent_that_no_run_can_carry_is_told_so() {
        assert_eq!(fits(&agent(256, 100)), Ok(()));
        let said = |definition: &AgentDefinition| fits(definition).unwrap_err().to_string();
        assert_eq!(said(&agent(257, 1)), "/tools: 257 tools are too many; keep at most 256");
        let heavy = said(&agent(200, 2000));
        assert!(heavy.starts_with("/tools: names, tags") && heavy.ends_with("carries at most 262144"), "{heavy}");
        let below = AgentDefinition { agents: vec![agent(200, 2000)], ..agent(0, 0) };
        assert!(said(&below).starts_with("/agents/0/tools: "));
        let long = AgentDefinition { system_prompt: "x".repeat(5_000_000), ..agent(0, 0) };
        assert!(said(&long).ends_with("keep at most 4194304"));
    }
}
