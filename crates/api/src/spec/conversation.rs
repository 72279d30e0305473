//! What is said to the agent: a prompt, or messages with roles.

use serde_json::{Value, json};
use windlass_core::{
    limits::{MESSAGES, TEXT_CHARS},
    message::{Message, Role},
};

use super::{
    Invalid,
    attachments::{self, Attachment},
    fields::Fields,
};

/// Where a message's history keeps what it knows about its files.
pub const ATTACHMENTS: &str = "attachments";

/// The new messages of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// What the system messages said. They belong to the prompt, wherever they stood.
    pub system: Vec<String>,
    /// User and assistant messages; the last one is a user's.
    pub messages: Vec<Message>,
}

impl Conversation {
    pub(super) fn parse(fields: &Fields<'_>) -> Result<Self, Invalid> {
        let prompt = fields.bounded_text("prompt", TEXT_CHARS)?;
        match (prompt, fields.bounded_list("messages", MESSAGES)?) {
            // An empty prompt is a prompt, but does not compete with messages.
            (None | Some(""), Some(items)) => Self::of_messages(fields, &items),
            (Some(_), Some(_)) => Err(fields.invalid("prompt", "send either prompt or messages, not both")),
            (None, None) => Err(fields.invalid("prompt", "is required, unless messages are sent")),
            (Some(prompt), None) => Ok(Self { system: Vec::new(), messages: vec![Message::user(prompt)] }),
        }
    }

    fn of_messages(fields: &Fields<'_>, items: &[(String, &Value)]) -> Result<Self, Invalid> {
        let mut conversation = Self { system: Vec::new(), messages: Vec::new() };
        let mut attached = Vec::new();
        for (path, item) in items {
            let item = Fields::at(path, item)?;
            let content = item.bounded_text("content", TEXT_CHARS)?.unwrap_or_default();
            let role = match item.required_text("role")? {
                "system" => {
                    conversation.system.push(content.to_owned());
                    continue;
                }
                "user" => Role::User,
                "assistant" => Role::Assistant,
                _ => return Err(item.invalid("role", "must be \"system\", \"user\" or \"assistant\"")),
            };
            // Only the files of the last user message count; the loop's last round decides.
            if role == Role::User {
                attached = attachments::parse(&item, ATTACHMENTS)?;
            }
            conversation.messages.push(Message::text(role, content));
        }
        match conversation.messages.last_mut() {
            Some(last) if last.role == Role::User => {
                if last.plain_text().trim().is_empty() && attached.is_empty() {
                    return Err(fields.invalid("messages", "the last message says nothing"));
                }
                attach(last, &attached);
                Ok(conversation)
            }
            _ => Err(fields.invalid("messages", "the last message that is not a system message must be a user's")),
        }
    }
}

fn attach(message: &mut Message, attached: &[Attachment]) {
    if attached.is_empty() {
        return;
    }
    message.parts.extend(attached.iter().map(Attachment::part));
    let summaries: Vec<Value> = attached.iter().map(Attachment::summary).collect();
    message.meta.insert(ATTACHMENTS.to_owned(), json!(summaries));
}
