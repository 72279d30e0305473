//! The conversation as the API's `messages`.
//!
//! The API wants the results of calls at the beginning of the user message that follows the calls. So consecutive
//! messages of one role are sent as one, with results first. A request is made only when all calls have results;
//! therefore what a later turn adds to the last message stands behind what was there, and the text of the messages of one
//! turn, without its closing brackets, is the beginning of that of the next.

use std::{borrow::Cow, collections::HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_core::{
    canonical::CanonicalJson,
    ids::CallId,
    message::{Content, Message, Part, Role},
};

use super::media::{self, Source, is_blank};
use crate::{ModelError, wire::Prepared};

/// The conversation as it is sent.
#[derive(Debug)]
pub(super) struct Conversation {
    /// The text of system messages before all others; they belong to the system prompt.
    pub(super) system: Vec<String>,
    turns: Vec<Turn>,
}

#[derive(Debug)]
struct Turn {
    role: &'static str,
    blocks: Vec<Block>,
}

/// A content block as JSON text.
#[derive(Debug)]
struct Block {
    json: String,
    kind: BlockKind,
    /// A cache checkpoint follows it.
    checkpoint: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    /// Written here.
    Own,
    /// Written here; it comes first in its message.
    Result,
    /// An item of the provider, sent back as it came.
    Replayed,
    /// As above, and it is thinking.
    Thinking,
}

/// A block as it is written here. The order of the fields is the order on the wire.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Written<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source,
    },
    Document {
        source: Source,
        title: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<Citations>,
    },
    ToolUse {
        id: &'a str,
        name: String,
        input: CanonicalJson,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: Vec<Written<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
struct Citations {
    enabled: bool,
}

/// What is read of a provider's item.
#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
}

/// What the parts of a conversation are written with.
struct Writer<'a> {
    prepared: &'a Prepared<'a>,
    provider: &'a str,
    /// The provider's ids of calls, by ours.
    ids: HashMap<&'a CallId, String>,
}

pub(super) fn write(prepared: &Prepared<'_>, provider: &str) -> Result<Conversation, ModelError> {
    let messages = &*prepared.messages;
    let leading = messages.iter().take_while(|message| message.role == Role::System).count();
    let (leading, rest) = messages.split_at(leading);
    let writer = Writer { prepared, provider, ids: provider_ids(rest, provider) };
    let mut turns: Vec<Turn> = Vec::new();
    for message in rest {
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        if turns.last().is_none_or(|turn| turn.role != role) {
            turns.push(Turn { role, blocks: Vec::new() });
        }
        let Some(turn) = turns.last_mut() else { continue };
        let mut before = None;
        for part in &message.parts {
            if part.content == Content::CacheCheckpoint {
                checkpoint(before.and_then(|at: usize| turn.blocks.get_mut(at)));
            } else if let Some(block) = writer.block(message.role, part)? {
                before = Some(turn.blocks.len());
                turn.blocks.push(block);
            }
        }
        // A message of which nothing can be sent is left out; its neighbours are then one message.
        turns.pop_if(|turn| turn.blocks.is_empty());
    }
    for turn in &mut turns {
        turn.blocks.sort_by_key(|block| block.kind != BlockKind::Result);
    }
    Ok(Conversation { system: leading.iter().filter_map(system_text).collect(), turns })
}

fn system_text(message: &Message) -> Option<String> {
    Some(message.plain_text()).filter(|text| !is_blank(text))
}

/// The block before a checkpoint, in the same message, is marked: blocks of earlier messages keep their text. A checkpoint
/// behind an item of the provider is left out, because items are sent back without a change; the automatic breakpoint
/// covers it.
fn checkpoint(before: Option<&mut Block>) {
    if let Some(block) = before.filter(|block| matches!(block.kind, BlockKind::Own | BlockKind::Result)) {
        block.checkpoint = true;
    }
}

fn provider_ids<'a>(messages: &'a [Message], provider: &str) -> HashMap<&'a CallId, String> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let ids = parts.filter_map(|part| match &part.content {
        Content::ToolUse { id, .. } => Some((id, own_item(part, provider)?.1.id?)),
        _ => None,
    });
    ids.collect()
}

/// The item that this provider sent for a part, if it can be sent back.
fn own_item<'a>(part: &'a Part, provider: &str) -> Option<(&'a str, Item)> {
    let own = part.provider_item.as_ref().filter(|own| own.provider == provider)?;
    let item: Item = serde_json::from_str(&own.item).ok()?;
    let is_call = matches!(part.content, Content::ToolUse { .. });
    (!is_call || item.id.is_some()).then_some((own.item.as_str(), item))
}

impl Writer<'_> {
    fn block(&self, role: Role, part: &Part) -> Result<Option<Block>, ModelError> {
        if is_refused(&part.content) {
            return Ok(None);
        }
        if let Some((json, item)) = own_item(part, self.provider) {
            let kind = match item.kind.as_str() {
                "thinking" | "redacted_thinking" => BlockKind::Thinking,
                _ => BlockKind::Replayed,
            };
            return Ok(Some(Block { json: json.to_owned(), kind, checkpoint: false }));
        }
        let written = match (&part.content, role) {
            (Content::Text { text }, Role::System) => Some(Written::Text { text: format!("System: {text}").into() }),
            (Content::ToolUse { id, name, input }, Role::Assistant) => {
                Some(Written::ToolUse { id: id.as_str(), name: self.prepared.names.wire(name), input: object(input) })
            }
            (Content::ToolResult { tool_use_id, content, parts, is_error }, _) => {
                Some(self.result(tool_use_id, content, parts, *is_error)?)
            }
            // The API takes files of the user only.
            (Content::Image { .. }, Role::Assistant) => Some(text_block("[An image is here that cannot be shown.]")),
            (Content::Document { name, .. }, Role::Assistant) => {
                Some(Written::Text { text: format!("[The file {name:?} is here that cannot be shown.]").into() })
            }
            (content, _) => readable(content)?,
        };
        let Some(written) = written else { return Ok(None) };
        let kind = if matches!(written, Written::ToolResult { .. }) { BlockKind::Result } else { BlockKind::Own };
        Ok(Some(Block { json: json(&written)?, kind, checkpoint: false }))
    }

    fn result<'a>(
        &'a self,
        id: &'a CallId,
        content: &CanonicalJson,
        parts: &'a [Part],
        is_error: bool,
    ) -> Result<Written<'a>, ModelError> {
        let said = match content.decode::<String>() {
            Ok(text) => Some(text),
            Err(_) if content.as_str() == "null" && !parts.is_empty() => None,
            Err(_) => Some(content.as_str().to_owned()),
        };
        let said = said.filter(|said| !is_blank(said));
        let mut blocks: Vec<Written<'_>> = said.map(|text| Written::Text { text: text.into() }).into_iter().collect();
        for part in parts.iter().filter(|part| !is_refused(&part.content)) {
            blocks.extend(readable(&part.content)?);
        }
        // An error without a text is refused.
        if is_error && blocks.is_empty() {
            blocks.push(text_block("The tool failed and gave no reason."));
        }
        let tool_use_id = self.ids.get(id).map_or_else(|| id.as_str(), String::as_str);
        Ok(Written::ToolResult { tool_use_id, content: blocks, is_error })
    }
}

/// What the API refuses, even as its own item: text without a visible character, and thinking whose signature never came
/// because the answer was cut off.
fn is_refused(content: &Content) -> bool {
    match content {
        Content::Text { text } | Content::Citations { text, .. } => is_blank(text),
        Content::Thinking { signature, redacted, .. } => signature.is_none() && redacted.is_none(),
        _ => false,
    }
}

/// Text, images and documents. Other kinds are sent as items of the provider only.
fn readable(content: &Content) -> Result<Option<Written<'_>>, ModelError> {
    Ok(match content {
        Content::Text { text } | Content::Citations { text, .. } => Some(text_block(text)),
        Content::Image { format, source } => Some(Written::Image { source: media::image(*format, source)? }),
        Content::Document { name, format, source, context, cite } => Some(Written::Document {
            source: media::document(name, *format, source)?,
            title: name,
            context: context.as_deref(),
            citations: cite.then_some(Citations { enabled: true }),
        }),
        _ => None,
    })
}

fn text_block(text: &str) -> Written<'_> {
    Written::Text { text: text.into() }
}

/// The API takes objects only. Arguments that are none, such as a call that could not be read, are shown inside one.
fn object(input: &CanonicalJson) -> CanonicalJson {
    match input.as_str().starts_with('{') {
        true => input.clone(),
        false => CanonicalJson::from_canonical(format!("{{\"arguments\":{input}}}")),
    }
}

fn json(value: &impl Serialize) -> Result<String, ModelError> {
    serde_json::to_string(value)
        .map_err(|error| ModelError::invalid_request(format!("a message cannot be written as JSON: {error}")))
}

impl Conversation {
    /// Whether the last message answers calls that were made without thinking.
    pub(super) fn answers_calls_without_thinking(&self) -> bool {
        let [.., calls, results] = self.turns.as_slice() else { return false };
        let first = |turn: &Turn| turn.blocks.first().map(|block| block.kind);
        first(results) == Some(BlockKind::Result) && first(calls) != Some(BlockKind::Thinking)
    }

    /// The messages as a JSON array. At most `most` checkpoints are marked with `marker`: the newest, because a prefix
    /// that is long is worth more than a short one, and what precedes an older mark is found by the newer one, too. The
    /// provider's cache does not regard marks as content, so a mark that is gone on a later turn costs no hit.
    pub(super) fn to_json(&self, marker: Option<&Value>, most: usize) -> String {
        let checkpoints = self.turns.iter().flat_map(|turn| &turn.blocks).filter(|block| block.checkpoint).count();
        let mut too_many = checkpoints.saturating_sub(most);
        let mut json = String::from("[");
        for (n, turn) in self.turns.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            json.push_str(&format!("{comma}{{\"role\":\"{}\",\"content\":[", turn.role));
            for (n, block) in turn.blocks.iter().enumerate() {
                if n > 0 {
                    json.push(',');
                }
                let marked = block.checkpoint && too_many == 0;
                too_many -= usize::from(block.checkpoint && !marked);
                match marker.filter(|_| marked) {
                    Some(marker) => {
                        // A block that is written here is an object with fields.
                        json.push_str(block.json.strip_suffix('}').unwrap_or(&block.json));
                        json.push_str(&format!(",\"cache_control\":{marker}}}"));
                    }
                    None => json.push_str(&block.json),
                }
            }
            json.push_str("]}");
        }
        json.push(']');
        json
    }
}
