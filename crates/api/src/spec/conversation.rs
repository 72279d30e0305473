//! What is said to the agent: a prompt, or messages with roles.

use serde_json::{Value, json};
use windlass_core::message::{Message, Role};

use super::{
    Invalid,
    attachments::{self, Attachment},
    fields::Fields,
};

const MAX_MESSAGES: usize = 200;
const MAX_CHARS: usize = 200_000;
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
        let prompt = fields.text("prompt")?.filter(|prompt| !prompt.is_empty());
        match (prompt, fields.list("messages")?) {
            (Some(_), Some(_)) => Err(fields.invalid("prompt", "send either prompt or messages, not both")),
            (None, None) => Err(fields.invalid("prompt", "is required, unless messages are sent")),
            (Some(prompt), None) => {
                check_length(prompt).map_err(|problem| fields.invalid("prompt", problem))?;
                Ok(Self { system: Vec::new(), messages: vec![Message::user(prompt)] })
            }
            (None, Some(items)) => Self::of_messages(fields, &items),
        }
    }

    fn of_messages(fields: &Fields<'_>, items: &[(String, &Value)]) -> Result<Self, Invalid> {
        if items.len() > MAX_MESSAGES {
            return Err(fields.invalid("messages", format!("has {} entries; send at most {MAX_MESSAGES}", items.len())));
        }
        let mut conversation = Self { system: Vec::new(), messages: Vec::new() };
        let mut attached = Vec::new();
        for (path, item) in items {
            let item = Fields::at(path, item)?;
            let content = item.text("content")?.unwrap_or_default();
            check_length(content).map_err(|problem| item.invalid("content", problem))?;
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

fn check_length(text: &str) -> Result<(), String> {
    let chars = text.chars().count();
    if chars <= MAX_CHARS { Ok(()) } else { Err(format!("has {chars} characters; send at most {MAX_CHARS}")) }
}
