//! The messages of a conversation. Each one is written without a look at what follows, so that the messages of a turn
//! begin with the bytes of those of the turn before.

use std::collections::HashMap;

use serde_json::{Value, json};
use windlass_core::{
    canonical::CanonicalJson,
    ids::{CallId, ToolName},
    message::{Content, Message, Part, Role},
};

use super::Dialect;
use crate::{
    ModelError,
    openai::{Piece, attachment_note, piece_of, result_pieces, written_arguments},
    wire::{Fields, Prepared, ToolNames, quoted, text_of},
};

/// The citations of a text that the provider wrote.
pub(super) const ANNOTATIONS: &str = "annotations";

/// The elements of `messages` as JSON texts, the system prompt first.
pub(super) fn write(prepared: &Prepared<'_>, provider: &str, dialect: Dialect) -> Result<Vec<String>, ModelError> {
    let mut writer = Writer {
        provider,
        system_role: match dialect {
            Dialect::OpenAi => "developer",
            Dialect::Compatible => "system",
        },
        names: &prepared.names,
        messages: Vec::new(),
        call_ids: HashMap::new(),
        attachments: Vec::new(),
    };
    if !prepared.system.is_empty() {
        writer.push(&json!({"role": writer.system_role, "content": prepared.system}));
    }
    for message in prepared.messages.iter() {
        writer.message(message)?;
    }
    writer.send_attachments();
    Ok(writer.messages)
}

struct Writer<'a> {
    provider: &'a str,
    system_role: &'static str,
    names: &'a ToolNames,
    messages: Vec<String>,
    /// The provider's ids of calls by ours.
    call_ids: HashMap<&'a CallId, String>,
    /// Images and files of results. A result has only text here, and all results of a message's calls must follow it
    /// directly, so these come after the last result.
    attachments: Vec<Value>,
}

impl<'a> Writer<'a> {
    fn push(&mut self, message: &Value) {
        self.messages.push(message.to_string());
    }

    fn send_attachments(&mut self) {
        if !self.attachments.is_empty() {
            let content = std::mem::take(&mut self.attachments);
            self.push(&json!({"role": "user", "content": content}));
        }
    }

    fn message<'m: 'a>(&mut self, message: &'m Message) -> Result<(), ModelError> {
        match message.role {
            Role::System => {
                self.send_attachments();
                self.push(&json!({"role": self.system_role, "content": message.plain_text()}));
            }
            Role::User => self.user(&message.parts)?,
            Role::Assistant => {
                self.send_attachments();
                self.assistant(&message.parts);
            }
        }
        Ok(())
    }

    fn user(&mut self, parts: &[Part]) -> Result<(), ModelError> {
        let mut content = Vec::new();
        for part in parts {
            match &part.content {
                Content::ToolResult { tool_use_id, content, parts, is_error } => {
                    self.result(tool_use_id, &result_pieces(content, parts, *is_error)?);
                }
                _ => content.extend(piece_of(part)?),
            }
        }
        if content.is_empty() {
            return Ok(());
        }
        self.send_attachments();
        let content = match content.as_slice() {
            [Piece::Text(text)] => json!(text),
            pieces => pieces.iter().map(written).collect(),
        };
        self.push(&json!({"role": "user", "content": content}));
        Ok(())
    }

    fn result(&mut self, call: &CallId, pieces: &[Piece]) {
        let id = self.call_ids.get(call).map_or(call.as_str(), String::as_str).to_owned();
        let (texts, files): (Vec<&Piece>, Vec<&Piece>) = pieces.iter().partition(|it| matches!(it, Piece::Text(_)));
        let texts =
            texts.into_iter().filter_map(|piece| if let Piece::Text(text) = piece { Some(&**text) } else { None });
        let content = texts.collect::<Vec<&str>>().join("\n");
        if !files.is_empty() {
            self.attachments.push(json!({"type": "text", "text": attachment_note(&id)}));
            self.attachments.extend(files.into_iter().map(written));
        }
        self.push(&json!({"role": "tool", "tool_call_id": id, "content": content}));
    }

    /// One message out of its parts. Parts of another provider are written from what they say; its thinking and the
    /// tools it executed are left out.
    fn assistant<'m: 'a>(&mut self, parts: &'m [Part]) {
        let mut contents = Vec::new();
        let mut fields = Fields::default();
        let mut calls = Vec::new();
        for part in parts {
            let own = self.own_item(part);
            match (&part.content, own) {
                (Content::ToolUse { id, name, input }, own) => calls.push(self.call(id, name, input, own)),
                (_, Some((_, own))) => {
                    for (name, value) in own {
                        if name == "content" {
                            contents.push(value);
                        } else if name == ANNOTATIONS {
                            // A message that is sent has no such field; the citations are for readers.
                        } else if fields.get(&name).is_none() {
                            fields.set(&name, value);
                        }
                    }
                }
                (Content::Text { text } | Content::Citations { text, .. }, None) => contents.push(quoted(text)),
                _ => {}
            }
        }
        if contents.is_empty() && fields.is_empty() && calls.is_empty() {
            return;
        }
        let mut message = Fields::default();
        message.set("role", quoted("assistant"));
        message.set("content", one_content(contents));
        for (name, value) in fields {
            message.set(&name, value);
        }
        if !calls.is_empty() {
            message.set("tool_calls", format!("[{}]", calls.join(",")));
        }
        self.messages.push(message.to_string());
    }

    /// What this provider sent for a part. Items of OpenAI's other format have a `type`, which only calls have here.
    fn own_item<'m>(&self, part: &'m Part) -> Option<(&'m str, Fields)> {
        let item = part.provider_item.as_ref().filter(|item| item.provider == self.provider)?;
        let fields = Fields::parse(&item.item)?;
        let of_this_format = match part.content {
            Content::ToolUse { .. } => fields.get("function").is_some(),
            _ => fields.get("type").is_none(),
        };
        of_this_format.then_some((&*item.item, fields))
    }

    fn call<'m: 'a>(
        &mut self,
        id: &'m CallId,
        name: &ToolName,
        input: &CanonicalJson,
        own: Option<(&str, Fields)>,
    ) -> String {
        match own {
            Some((item, fields)) => match fields.text("id") {
                Some(theirs) => {
                    self.call_ids.insert(id, theirs);
                    item.to_owned()
                }
                // The server gave it no id, but results need one.
                None => with_id(id, fields).to_string(),
            },
            None => json!({
                "id": id,
                "type": "function",
                "function": {"name": self.names.wire(name), "arguments": written_arguments(input)},
            })
            .to_string(),
        }
    }
}

fn with_id(id: &CallId, own: Fields) -> Fields {
    let mut call = Fields::default();
    call.set("id", quoted(id.as_str()));
    for (name, value) in own {
        if name != "id" {
            call.set(&name, value);
        }
    }
    call
}

/// The message's content: the text as it came, or all texts as one.
fn one_content(mut contents: Vec<String>) -> String {
    match contents.len() {
        0 => "null".to_owned(),
        1 => contents.remove(0),
        _ => quoted(&contents.iter().filter_map(|json| text_of(json)).collect::<String>()),
    }
}

fn written(piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "text", "text": text}),
        Piece::Image(url) => json!({"type": "image_url", "image_url": {"url": url}}),
        Piece::File { name, data } => json!({"type": "file", "file": {"filename": name, "file_data": data}}),
        // The format has files inside the request only.
        Piece::FileAt { name, url } => {
            json!({"type": "text", "text": format!("[The file {} is at {url}.]", quoted(name))})
        }
    }
}
