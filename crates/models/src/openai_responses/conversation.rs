//! The items of a conversation. Each message is written without a look at what follows, so that the input of a turn
//! begins with the bytes of that of the turn before.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use windlass_core::{
    ids::CallId,
    message::{Content, Message, Part, Role},
};

use super::continuation;
use crate::{
    ModelError,
    openai::{Piece, piece_of, result_pieces, written_arguments},
    wire::{Fields, Prepared, ToolNames, is_absent},
};

/// The elements of `input` as JSON texts.
pub(super) fn write(prepared: &Prepared<'_>, provider: &str) -> Result<Vec<String>, ModelError> {
    let mut writer = Writer { provider, names: &prepared.names, items: Vec::new(), call_ids: HashMap::new() };
    for message in prepared.messages.iter() {
        match message.role {
            Role::System => writer.system(message),
            Role::User => writer.user(&message.parts)?,
            Role::Assistant => writer.assistant(&message.parts),
        }
    }
    Ok(writer.items)
}

struct Writer<'a> {
    provider: &'a str,
    names: &'a ToolNames,
    items: Vec<String>,
    /// The provider's ids of calls by ours.
    call_ids: HashMap<&'a CallId, String>,
}

impl<'a> Writer<'a> {
    fn push(&mut self, item: &Value) {
        self.items.push(item.to_string());
    }

    fn system(&mut self, message: &Message) {
        self.push(&json!({"type": "message", "role": "developer", "content": message.plain_text()}));
    }

    fn user(&mut self, parts: &[Part]) -> Result<(), ModelError> {
        let mut content = Vec::new();
        for part in parts {
            match &part.content {
                Content::ToolResult { tool_use_id, content: result, parts, is_error } => {
                    self.user_message(&mut content);
                    self.result(tool_use_id, &result_pieces(result, parts, *is_error)?);
                }
                _ => content.extend(piece_of(part)?.as_ref().map(written)),
            }
        }
        self.user_message(&mut content);
        Ok(())
    }

    fn user_message(&mut self, content: &mut Vec<Value>) {
        if !content.is_empty() {
            self.push(&json!({"type": "message", "role": "user", "content": std::mem::take(content)}));
        }
    }

    fn result(&mut self, call: &CallId, pieces: &[Piece]) {
        let id = self.call_ids.get(call).map_or(call.as_str(), String::as_str);
        let output = match pieces {
            [Piece::Text(text)] => json!(text),
            pieces => pieces.iter().map(written).collect(),
        };
        let item = json!({"type": "function_call_output", "call_id": id, "output": output});
        self.push(&item);
    }

    /// The items of this provider as they came. Parts of another provider are written from what they say; its thinking
    /// and the tools it executed are left out.
    fn assistant<'m: 'a>(&mut self, parts: &'m [Part]) {
        for (part, own) in parts.iter().zip(replayed(parts, self.provider)) {
            match (&part.content, own) {
                (_, Some(Replay::Contained)) => {}
                (Content::ToolUse { id, .. }, Some(Replay::Item(item, fields))) => {
                    self.call_ids.insert(id, fields.text("call_id").unwrap_or_default());
                    self.items.push(item.to_owned());
                }
                (_, Some(Replay::Item(item, _))) => self.items.push(item.to_owned()),
                (Content::ToolUse { id, name, input }, None) => self.push(&json!({
                    "type": "function_call",
                    "call_id": id,
                    "name": self.names.wire(name),
                    "arguments": written_arguments(input),
                })),
                (Content::Text { text } | Content::Citations { text, .. }, None) => {
                    self.push(&json!({"type": "message", "role": "assistant", "content": text}));
                }
                _ => {}
            }
        }
    }
}

/// What is sent for a part of this provider.
enum Replay<'a> {
    Item(&'a str, Fields),
    /// Nothing: an item that is sent contains it.
    Contained,
}

/// For each part of an answer, whether it is sent as it came.
fn replayed<'a>(parts: &'a [Part], provider: &str) -> Vec<Option<Replay<'a>>> {
    let items: Vec<Option<(&str, Fields)>> = parts.iter().map(|part| own_item(part, provider)).collect();
    let outputs: HashSet<String> = items
        .iter()
        .flatten()
        .filter(|(_, fields)| is_output(fields))
        .filter_map(|(_, fields)| fields.text("call_id"))
        .collect();
    let mut sent = HashSet::new();
    let mut replayed: Vec<Option<Replay<'a>>> = parts
        .iter()
        .zip(items)
        .map(|(part, own)| {
            let (item, fields) = own?;
            if let Some(id) = continuation::item_id(&fields) {
                return sent.contains(&id).then_some(Replay::Contained);
            }
            // A call that the provider wanted to be executed outside, and that has no result, would be refused.
            let lacks_result = matches!(part.content, Content::Other { .. } | Content::ProviderTool { .. })
                && !is_output(&fields)
                && fields.text("call_id").is_some_and(|id| !outputs.contains(&id));
            if lacks_result {
                return None;
            }
            sent.insert(fields.text("id").unwrap_or_default());
            Some(Replay::Item(item, fields))
        })
        .collect();
    // Reasoning is refused without the item that it led to.
    let mut leads_to_item = false;
    for (part, own) in parts.iter().zip(&mut replayed).rev() {
        match (&part.content, &own) {
            (Content::Thinking { .. }, _) if !leads_to_item => *own = None,
            (Content::Thinking { .. }, _) | (_, Some(Replay::Contained)) => {}
            (_, item) => leads_to_item = item.is_some(),
        }
    }
    replayed
}

fn is_output(fields: &Fields) -> bool {
    fields.text("type").is_some_and(|kind| kind.ends_with("_output"))
}

/// The item of a part of this provider, if it is one of this format and can be sent.
fn own_item<'a>(part: &'a Part, provider: &str) -> Option<(&'a str, Fields)> {
    let own = part.provider_item.as_ref().filter(|item| item.provider == provider)?;
    let fields = Fields::parse(&own.item)?;
    let kind = fields.text("type")?;
    let fits = match part.content {
        Content::ToolUse { .. } => kind == "function_call" && fields.text("call_id").is_some(),
        Content::Text { .. } | Content::Citations { .. } => {
            kind == "message" || continuation::item_id(&fields).is_some()
        }
        // Nothing is stored at the provider: it can read reasoning only if the item has it.
        Content::Thinking { .. } => {
            let has = |name| fields.get(name).is_some_and(|value| !is_absent(value));
            kind == "reasoning" && (has("encrypted_content") || has("content"))
        }
        _ => true,
    };
    fits.then_some((&*own.item, fields))
}

fn written(piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "input_text", "text": text}),
        Piece::Image(url) => json!({"type": "input_image", "image_url": url, "detail": "auto"}),
        Piece::File { name, data } => json!({"type": "input_file", "filename": name, "file_data": data}),
        Piece::FileAt { url, .. } => json!({"type": "input_file", "file_url": url}),
    }
}
