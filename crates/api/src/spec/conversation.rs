//! The input of a run: a prompt, or messages with roles.

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

/// The key of a message's metadata that lists its files.
pub const ATTACHMENTS: &str = "attachments";

/// The new messages of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// The texts of the system messages. They are added to the system prompt.
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
                    return Err(fields.invalid("messages", "the last message is empty"));
                }
                attach(last, &attached);
                Ok(conversation)
            }
            _ => {
                Err(fields.invalid("messages", "the last message that is not a system message must be a user message"))
            }
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
