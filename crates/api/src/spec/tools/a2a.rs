//! `a2a_local`: an agent that the caller reaches.

use serde_json::Value;
use windlass_core::{
    agent::{ClientTool, ToolSpec},
    limits::{CARD_BYTES, DESCRIPTION_CHARS},
    time::Millis,
};

use super::{Fields, Invalid, callers_tool, message_schema, plain_name};

/// The number of skills in the tool's description.
const MAX_SKILLS: usize = 12;

#[derive(Debug, Clone, PartialEq)]
pub(in crate::spec) struct LocalPeer {
    path: String,
    name: String,
    description: String,
    card: Value,
}

pub(super) fn parse_local(item: &Fields<'_>) -> Result<LocalPeer, Invalid> {
    let name = plain_name(item, "name")?.to_owned();
    let card = item
        .bounded_object("agentCard", CARD_BYTES)?
        .ok_or_else(|| item.invalid("agentCard", "is required, an object"))?;
    let description = match item.bounded_text("description", DESCRIPTION_CHARS)? {
        Some(said) if !said.is_empty() => said.to_owned(),
        _ => describe(&name, &card),
    };
    let card = item.get("agentCard").cloned().unwrap_or_default();
    Ok(LocalPeer { path: item.path_of("name"), name, description, card })
}

/// A description from the card. Fields of the card that are not as expected are skipped.
fn describe(name: &str, card: &Fields<'_>) -> String {
    let word = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let peer = Some(word(card.get("name"))).filter(|name| !name.is_empty()).unwrap_or_else(|| name.to_owned());
    let mut text = format!("Delegate a task to {peer}");
    let about = word(card.get("description"));
    if !about.is_empty() {
        text = format!("{text}: {about}");
    }
    let skills = card.get("skills").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let lines: Vec<String> = skills
        .iter()
        .take(MAX_SKILLS)
        .filter_map(|skill| {
            let name = skill.get("name").or_else(|| skill.get("id")).and_then(Value::as_str)?;
            let about = word(skill.get("description"));
            Some(if about.is_empty() { format!("- {name}") } else { format!("- {name}: {about}") })
        })
        .collect();
    if lines.is_empty() { text } else { format!("{text}\n\nSkills:\n{}", lines.join("\n")) }
}

impl LocalPeer {
    pub(super) fn spec(&self, timeout: Millis) -> (String, ToolSpec) {
        let client = ClientTool::A2aLocal { agent_card: self.card.clone() };
        let mut spec = callers_tool(&self.name, client, false, timeout);
        spec.description.clone_from(&self.description);
        spec.input_schema = Some(message_schema());
        (self.path.clone(), spec)
    }
}
