//! Values of secrets, removed from what servers send back: results, failures, progress, and the tools that they describe.

use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use windlass_core::{
    agent::{ResolvedToolset, ToolSpec},
    canonical::CanonicalJson,
    envelope::{Continuation, ToolErrorKind},
    message::{Content, Part},
};
use windlass_tools::{McpInspection, ToolFailure, ToolSuccess};

/// Shorter values are not looked for: they would be found in ordinary text.
const SHORTEST_SECRET: usize = 6;
const REDACTED: &str = "[redacted]";

/// The spellings of the secrets that a call or a list has used.
#[derive(Default)]
pub struct Redaction(Vec<String>);

impl Redaction {
    pub(crate) fn of(secrets: &[SecretString]) -> Self {
        let mut spellings: Vec<String> =
            secrets.iter().flat_map(|secret| forms(secret.expose_secret())).flat_map(|form| spellings(&form)).collect();
        // A secret may be a part of another: the longer is replaced first.
        spellings.sort_unstable_by_key(|spelling| std::cmp::Reverse(spelling.len()));
        spellings.dedup();
        Self(spellings)
    }

    pub fn text(&self, text: String) -> String {
        self.without(&text).unwrap_or(text)
    }

    pub fn success(&self, mut success: ToolSuccess) -> ToolSuccess {
        if self.0.is_empty() {
            return success;
        }
        if let Some(clean) = self.without(success.result.as_str()) {
            // Only text inside strings was replaced, so it is JSON still; a key that was replaced may be out of order.
            success.result = CanonicalJson::parse(&clean).unwrap_or_else(|_| json!(REDACTED).into());
        }
        for part in &mut success.content {
            self.part(part);
        }
        success.server_data = success.server_data.and_then(|data| self.json(data));
        success.bounds = success.bounds.and_then(|bounds| self.json(bounds));
        success
    }

    fn part(&self, part: &mut Part) {
        match &mut part.content {
            Content::Text { text, .. } => *text = self.text(std::mem::take(text)),
            Content::Document { name, context, .. } => {
                *name = self.text(std::mem::take(name));
                *context = context.take().map(|context| self.text(context));
            }
            _ => {}
        }
    }

    pub fn failure(&self, mut failure: ToolFailure) -> ToolFailure {
        failure.error.message = self.text(failure.error.message);
        failure
    }

    /// A continuation is in history and its questions are shown to people, so it must not repeat a secret.
    pub fn continuation(&self, continuation: Continuation) -> Result<Continuation, ToolFailure> {
        let text = CanonicalJson::of(&continuation).map(|json| json.to_string()).unwrap_or_default();
        match self.without(&text) {
            None => Ok(continuation),
            Some(_) => {
                let message = "the tool's server repeated a credential in its request for input; the call was given up";
                Err(ToolFailure::new(ToolErrorKind::ToolFailed, message))
            }
        }
    }

    /// The tools that a server describes. One whose name has a secret cannot be called without it, so it is left out.
    pub fn toolset(&self, tools: Vec<ToolSpec>, resolved: ResolvedToolset) -> (Vec<ToolSpec>, ResolvedToolset) {
        if self.0.is_empty() {
            return (tools, resolved);
        }
        let clean = |tool: ToolSpec| {
            let (name, source) = (tool.name.clone(), tool.source.clone());
            self.json(tool).filter(|clean: &ToolSpec| clean.name == name && clean.source == source)
        };
        let tools = tools.into_iter().filter_map(clean).collect();
        (tools, self.json(resolved).unwrap_or_default())
    }

    /// What a server says of itself, for people.
    pub fn inspection(&self, found: McpInspection) -> McpInspection {
        let clean = |items: Vec<Value>| items.into_iter().filter_map(|item| self.json(item)).collect();
        McpInspection {
            protocol: self.text(found.protocol),
            server: self.json(found.server).unwrap_or_default(),
            instructions: found.instructions.map(|text| self.text(text)),
            capabilities: self.json(found.capabilities).unwrap_or_default(),
            tools: clean(found.tools),
            prompts: clean(found.prompts),
            resources: clean(found.resources),
            resource_templates: clean(found.resource_templates),
        }
    }

    fn json<T: Serialize + DeserializeOwned>(&self, value: T) -> Option<T> {
        match self.without(&serde_json::to_string(&value).ok()?) {
            None => Some(value),
            Some(clean) => serde_json::from_str(&clean).ok(),
        }
    }

    fn without(&self, text: &str) -> Option<String> {
        let found = self.0.iter().any(|spelling| text.contains(spelling.as_str()));
        found.then(|| self.0.iter().fold(text.to_owned(), |text, spelling| text.replace(spelling.as_str(), REDACTED)))
    }
}

/// The value, and its credentials alone if it is a whole header: `Bearer TOKEN`.
fn forms(value: &str) -> Vec<String> {
    let credentials = value.rsplit_once(' ').map(|(_, credentials)| credentials);
    let forms = std::iter::once(value).chain(credentials).filter(|form| form.len() >= SHORTEST_SECRET);
    forms.map(str::to_owned).collect()
}

/// As it is, inside JSON, and inside JSON that is a text of JSON.
fn spellings(value: &str) -> [String; 3] {
    let escaped = |value: &str| {
        let json = Value::from(value).to_string();
        json[1..json.len() - 1].to_owned()
    };
    let once = escaped(value);
    [value.to_owned(), escaped(&once), once]
}

#[cfg(test)]
mod tests {
    use windlass_core::{
        agent::{McpSource, ToolSource},
        ids::ToolName,
    };

    use super::*;

    fn redaction() -> Redaction {
        Redaction::of(&["to\"ken-1".into(), "abc".into(), "Bearer whole-header".into()])
    }

    #[test]
    fn values_of_secrets_are_removed_in_every_spelling() {
        let mut success = ToolSuccess::new(json!({"echo": "Bearer to\"ken-1", "short": "abc", "own": "whole-header"}));
        success.content = vec![Content::Text { text: "it is to\"ken-1".to_owned() }.into()];
        success.server_data = Some(json!({"h": "to\"ken-1", "text": "{\"h\": \"to\\\"ken-1\"}"}));
        let clean = redaction().success(success);
        let expected = json!({"echo": "Bearer [redacted]", "short": "abc", "own": "[redacted]"});
        assert_eq!(clean.result.to_value(), expected);
        assert_eq!(clean.content, vec![Part::from(Content::Text { text: "it is [redacted]".to_owned() })]);
        assert_eq!(clean.server_data, Some(json!({"h": "[redacted]", "text": "{\"h\": \"[redacted]\"}"})));
        let failure = ToolFailure::new(ToolErrorKind::ToolFailed, "401 for Bearer whole-header");
        assert_eq!(redaction().failure(failure).error.message, "401 for [redacted]");
    }

    #[test]
    fn tools_are_described_without_secrets_and_left_out_if_their_name_has_one() {
        let tool = |name: &str| {
            let source = McpSource { toolset: "t".to_owned(), tool: name.to_owned() };
            let mut tool = ToolSpec::new(ToolName::new(name), ToolSource::Mcp(source));
            tool.description = "for to\"ken-1".to_owned();
            tool
        };
        let resolved = ResolvedToolset { server: Some("I am to\"ken-1".to_owned()), ..ResolvedToolset::default() };
        let (tools, resolved) = redaction().toolset(vec![tool("read"), tool("read-whole-header")], resolved);
        let mut expected = tool("read");
        expected.description = "for [redacted]".to_owned();
        assert_eq!(tools, [expected]);
        assert_eq!(resolved.server.as_deref(), Some("I am [redacted]"));
    }
}
