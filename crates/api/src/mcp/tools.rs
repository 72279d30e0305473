//! Agents as tools.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use windlass_core::{agent::AgentDefinition, canonical::Digest};

use crate::auth::Caller;

/// What clients and the models behind them accept as the name of a tool.
const NAME_CHARS: usize = 64;
const SUFFIX_HEX: usize = 8;

/// The agents that the caller may start, as tools, in the order of their names.
pub(super) fn offered<'a>(agents: &'a [AgentDefinition], caller: &Caller) -> Vec<(String, &'a AgentDefinition)> {
    let mut tools: Vec<_> = named(agents).filter(|(_, agent)| caller.may_use(Some(&agent.id))).collect();
    tools.sort_by(|(one, _), (other, _)| one.cmp(other));
    tools
}

/// The agents with the names of their tools. A name does not depend on the key that asks for it.
fn named(agents: &[AgentDefinition]) -> impl Iterator<Item = (String, &AgentDefinition)> {
    let mut sorted: Vec<_> = agents.iter().collect();
    // Ids that are names already keep them.
    sorted.sort_by_key(|agent| (safe(agent.id.as_str()) != agent.id.as_str(), agent.id.clone()));
    let mut taken = BTreeSet::new();
    sorted.into_iter().map(move |agent| {
        let mut name = safe(agent.id.as_str());
        if name.len() > NAME_CHARS || taken.contains(&name) {
            let digest = Digest::of_json(&json!(agent.id)).to_string();
            name.truncate(NAME_CHARS - SUFFIX_HEX - 1);
            name = format!("{name}_{}", &digest[..SUFFIX_HEX]);
        }
        taken.insert(name.clone());
        (name, agent)
    })
}

fn safe(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' }).collect()
}

/// One entry of `tools/list`.
pub(super) fn tool(name: &str, agent: &AgentDefinition) -> Value {
    let mut tool = json!({
        "name": name,
        "description": description(agent),
        "inputSchema": {
            "type": "object",
            "properties": {
                "message": {"type": "string", "description": "The task or the question for the agent, with everything it needs to know."},
                "session": {
                    "type": "string",
                    "description": "Continues a conversation: calls with the same session, a name of your choice, share their history. \
                                    The id of a run that waits for an answer continues this run with the message as the answer.",
                },
            },
            "required": ["message"],
        },
        "annotations": annotations(agent),
    });
    if let Some(title) = &agent.name {
        tool["title"] = json!(title);
    }
    if let Some(schema) = object_schema(agent) {
        tool["outputSchema"] = schema.clone();
    }
    tool
}

fn description(agent: &AgentDefinition) -> String {
    match agent.description.as_str() {
        "" => format!("Asks the agent {}.", agent.name.as_deref().unwrap_or(agent.id.as_str())),
        description => description.to_owned(),
    }
}

/// An agent without tools only answers. What the others do depends on their tools.
fn annotations(agent: &AgentDefinition) -> Value {
    let only_answers = agent.tools.is_empty() && agent.toolsets.is_empty();
    if only_answers { json!({"readOnlyHint": true, "openWorldHint": true}) } else { json!({"openWorldHint": true}) }
}

/// The schema of the answer, if it is one that structured content can have: that of an object.
pub(super) fn object_schema(agent: &AgentDefinition) -> Option<&Value> {
    agent.output_schema.as_ref().map(|output| &output.schema).filter(|schema| schema["type"] == "object")
}

/// The body of `POST /agent-runs` for a call.
pub(super) fn run_body(agent: &AgentDefinition, arguments: &Arguments, run_id: &str) -> Value {
    let mut body = json!({"agentId": agent.id, "prompt": arguments.message, "runId": run_id});
    if let Some(session) = &arguments.session {
        body["sessionId"] = json!(session);
    }
    body
}

/// The arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) message: String,
    pub(super) session: Option<String>,
}

impl Arguments {
    /// The error is for the model that made the call.
    pub(super) fn parse(arguments: Option<&Value>) -> Result<Self, String> {
        let none = Map::new();
        let fields = match arguments {
            None | Some(Value::Null) => &none,
            Some(Value::Object(fields)) => fields,
            Some(_) => return Err("arguments: must be an object".to_owned()),
        };
        let text = |key: &str| match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("{key}: must be a text")),
        };
        if let Some(unknown) = fields.keys().find(|key| !["message", "session"].contains(&key.as_str())) {
            let shown: String = unknown.chars().take(64).collect();
            return Err(format!("unknown argument {shown:?}; send message and, to continue a conversation, session"));
        }
        let message = text("message")?.ok_or_else(|| "message: is required, a text".to_owned())?;
        Ok(Self { message, session: text("session")?.filter(|session| !session.is_empty()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(fields: Value) -> AgentDefinition {
        let mut all = json!({"model": "script:echo"});
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn caller(agents: Option<Vec<&str>>) -> Caller {
        Caller {
            workspace: "acme".into(),
            key_id: "key-1".to_owned(),
            key_name: "ci".to_owned(),
            scopes: vec!["*".to_owned()],
            roles: Vec::new(),
            agents: agents.map(|ids| ids.into_iter().map(Into::into).collect()),
        }
    }

    #[test]
    fn names_are_safe_unique_sorted_and_the_same_for_every_key() {
        let long = "a".repeat(80);
        let ids = ["team/desk.v1", "team_desk_v1", "desk", long.as_str()];
        let agents: Vec<_> = ids.iter().map(|id| agent(json!({"id": id}))).collect();
        let names = |caller: &Caller| {
            let tools = offered(&agents, caller);
            tools.into_iter().map(|(name, agent)| (name, agent.id.to_string())).collect::<Vec<_>>()
        };
        let all = names(&caller(None));
        assert_eq!(
            all.iter().map(|(_, id)| id.as_str()).collect::<Vec<_>>(),
            [long.as_str(), "desk", "team_desk_v1", "team/desk.v1"]
        );
        assert_eq!((all[1].0.as_str(), all[2].0.as_str()), ("desk", "team_desk_v1"));
        assert!(all[3].0.starts_with("team_desk_v1_") && all[0].0.len() == NAME_CHARS, "{all:?}");
        assert_eq!(
            names(&caller(Some(vec!["team/desk.v1"]))),
            all[3..],
            "a key that is bound to agents sees only these"
        );
    }

    #[test]
    fn an_agent_is_a_tool_with_its_description_and_its_output_schema() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let desk = agent(json!({
            "id": "desk", "name": "Desk", "description": "Answers questions.",
            "outputSchema": {"schema": schema}, "tools": [{"name": "clock"}],
        }));
        let mut shown = tool("desk", &desk);
        let input = shown.as_object_mut().unwrap().remove("inputSchema").unwrap();
        assert_eq!(
            shown,
            json!({
                "name": "desk", "title": "Desk", "description": "Answers questions.",
                "outputSchema": schema, "annotations": {"openWorldHint": true},
            })
        );
        assert_eq!(
            (&input["required"], &input["properties"]["message"]["type"]),
            (&json!(["message"]), &json!("string"))
        );
        let plain = agent(json!({"id": "list", "outputSchema": {"schema": {"type": "array"}}}));
        let shown = tool("list", &plain);
        assert_eq!((shown.get("outputSchema"), &shown["description"]), (None, &json!("Asks the agent list.")));
        assert_eq!(shown["annotations"]["readOnlyHint"], true);
    }

    #[test]
    fn arguments_are_a_message_and_maybe_a_session() {
        let parse = |arguments: Value| Arguments::parse(Some(&arguments));
        assert_eq!(
            parse(json!({"message": "hi", "session": "s1"})),
            Ok(Arguments { message: "hi".to_owned(), session: Some("s1".to_owned()) })
        );
        for wrong in [json!({}), json!({"message": 1}), json!({"message": "hi", "mesage": ""}), json!([])] {
            assert!(parse(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
