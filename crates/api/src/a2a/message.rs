//! From a client's message to the start of a run: its ids and its input. Pure.

use std::collections::HashMap;

use a2a::{A2AError, Message, Part, PartContent, Role};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use windlass_core::{
    awaits::AwaitView,
    canonical::Digest,
    ids::{AgentId, SessionId},
};

use super::error::invalid;
use crate::auth::Caller;

/// The key of a stored message's metadata with the id that its sender chose.
pub(crate) const MESSAGE_ID: &str = "a2aMessageId";

/// The key of a part's metadata, and of an answer's data, that names an await.
pub(super) const AWAIT_ID: &str = "awaitId";

/// The longest message id. Clients use UUIDs.
const MESSAGE_ID_CHARS: usize = 256;

/// The metadata of a part that is about an await.
pub(super) fn about_await(item: &AwaitView) -> HashMap<String, Value> {
    HashMap::from([(AWAIT_ID.to_owned(), json!(item.id)), ("kind".to_owned(), json!(item.kind))])
}

/// A new task: its ids are made from the message's, so that a message that is sent again is the same task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewTask {
    pub(crate) run: String,
    pub(crate) context: SessionId,
}

impl NewTask {
    pub(crate) fn of(caller: &Caller, agent: &AgentId, message: &Message) -> Result<Self, A2AError> {
        let id = &message.message_id;
        if id.is_empty() || id.chars().count() > MESSAGE_ID_CHARS {
            return Err(invalid("message.messageId", format!("must have 1 to {MESSAGE_ID_CHARS} characters")));
        }
        let context = match message.context_id.as_deref().filter(|context| !context.is_empty()) {
            Some(context) if context.contains('/') => {
                return Err(invalid("message.contextId", "must not contain /"));
            }
            Some(context) => {
                SessionId::parse(context).map_err(|problem| invalid("message.contextId", problem.to_string()))?
            }
            // Two clients may choose the same message id, so the context of a message without one is the key's.
            None => SessionId::new(format!("ctx-{}", short(&json!([caller.workspace, caller.key_id, agent, id])))),
        };
        let run = format!("a2a-{}", short(&json!([caller.workspace, context, agent, id])));
        Ok(Self { run, context })
    }
}

fn short(value: &Value) -> String {
    Digest::of_json(value).to_string().chars().take(32).collect()
}

/// What makes two messages the same: another message with the same id is refused.
pub(crate) fn digest(message: &Message) -> Digest {
    Digest::of_json(&json!([message.message_id, message.parts]))
}

/// The message as the body of `POST /agent-runs`, which then applies its limits.
pub(crate) fn run_body(agent: &AgentId, message: &Message, new: &NewTask) -> Result<Value, A2AError> {
    if message.role != Role::User {
        return Err(invalid("message.role", "must be ROLE_USER"));
    }
    if message.parts.is_empty() {
        return Err(invalid("message.parts", "at least one part is required"));
    }
    let attachments: Vec<Value> = message.parts.iter().filter_map(attachment).collect();
    let input = json!({"role": "user", "content": text(message), "attachments": attachments});
    Ok(json!({"agentId": agent, "messages": [input], "runId": new.run, "sessionId": new.context}))
}

/// The texts of a message, and its data as JSON, in their order.
pub(crate) fn text(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match &part.content {
        PartContent::Text(text) => Some(text.clone()),
        PartContent::Data(value) => Some(value.to_string()),
        PartContent::Raw(_) | PartContent::Url(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn attachment(part: &Part) -> Option<Value> {
    let mut file = match &part.content {
        PartContent::Raw(bytes) => {
            json!({"type": "input_file", "filename": "file", "data": BASE64_STANDARD.encode(bytes)})
        }
        PartContent::Url(url) => json!({"type": "input_file_url", "url": url}),
        PartContent::Text(_) | PartContent::Data(_) => return None,
    };
    for (key, value) in [("filename", &part.filename), ("mimeType", &part.media_type)] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            file[key] = json!(value);
        }
    }
    Some(file)
}

#[cfg(test)]
mod tests {
    use windlass_core::ids::WorkspaceId;

    use super::*;

    fn caller(key: &str) -> Caller {
        Caller {
            workspace: WorkspaceId::new("acme"),
            key_id: key.to_owned(),
            key_name: key.to_owned(),
            scopes: Vec::new(),
            roles: Vec::new(),
            agents: None,
        }
    }

    fn sent(message: Value) -> Message {
        serde_json::from_value(message).unwrap()
    }

    fn hello(id: &str, context: Option<&str>) -> Message {
        sent(json!({"messageId": id, "contextId": context, "role": "ROLE_USER", "parts": [{"text": "hello"}]}))
    }

    #[test]
    fn a_message_that_is_sent_again_is_the_same_task() {
        let (desk, other) = (AgentId::new("desk"), AgentId::new("other"));
        let task = |key: &str, agent: &AgentId, id: &str, context: Option<&str>| {
            NewTask::of(&caller(key), agent, &hello(id, context)).unwrap()
        };
        let first = task("k1", &desk, "m1", None);
        assert_eq!(first, task("k1", &desk, "m1", None));
        let others = [
            task("k1", &desk, "m2", None),
            task("k2", &desk, "m1", None),
            task("k1", &other, "m1", None),
            task("k1", &desk, "m1", Some("c1")),
        ];
        for (index, task) in others.iter().enumerate() {
            assert_ne!(task.run, first.run, "{index}");
        }
        assert_eq!(task("k1", &desk, "m1", Some("c1")), task("k2", &desk, "m1", Some("c1")));
        assert_eq!(task("k1", &desk, "m1", Some("")), first, "an empty context is none");
    }

    #[test]
    fn an_id_that_cannot_be_used_is_refused() {
        for (id, context, field) in [
            ("", None, "message.messageId"),
            ("m", Some("a b"), "message.contextId"),
            ("m", Some("a/b"), "message.contextId"),
        ] {
            let refused = NewTask::of(&caller("k"), &AgentId::new("desk"), &hello(id, context)).unwrap_err();
            assert!(refused.message.starts_with(field), "{refused:?}");
        }
    }

    #[test]
    fn texts_and_data_are_the_prompt_and_files_are_attachments() {
        let message = sent(json!({"messageId": "m", "role": "ROLE_USER", "parts": [
            {"text": "Read this."},
            {"data": {"city": "Bergen"}},
            {"raw": "aGk=", "filename": "a.txt", "mediaType": "text/plain"},
            {"url": "https://example.com/pier.png"},
        ]}));
        let new = NewTask { run: "r".into(), context: SessionId::new("c") };
        let expected = json!({"agentId": "desk", "runId": "r", "sessionId": "c", "messages": [{
            "role": "user",
            "content": "Read this.\n{\"city\":\"Bergen\"}",
            "attachments": [
                {"type": "input_file", "filename": "a.txt", "mimeType": "text/plain", "data": "aGk="},
                {"type": "input_file_url", "url": "https://example.com/pier.png"},
            ],
        }]});
        assert_eq!(run_body(&AgentId::new("desk"), &message, &new).unwrap(), expected);
    }

    #[test]
    fn only_a_users_message_with_parts_starts_a_run() {
        let new = NewTask { run: "r".into(), context: SessionId::new("c") };
        for (message, field) in [
            (json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}), "message.role"),
            (json!({"messageId": "m", "role": "ROLE_USER", "parts": []}), "message.parts"),
        ] {
            let refused = run_body(&AgentId::new("desk"), &sent(message), &new).unwrap_err();
            assert!(refused.message.starts_with(field), "{refused:?}");
        }
    }
}
