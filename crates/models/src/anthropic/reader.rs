//! Reads the stream of one answer.

use std::collections::HashMap;

use serde::Deserialize;
use windlass_core::{
    envelope::TokenUsage,
    message::{Content, Part},
    stop::StopReason,
};

use super::{
    block::{Arguments, Block, Piece},
    failure::{self, ApiError},
    usage::Counted,
};
use crate::{
    Delta, DeltaKind, ErrorClass, ModelError, ModelRequest, ModelResponse,
    wire::{Asked, Fields, Output, StreamReader, cut_off, read},
};

pub(super) struct Reader {
    asked: Asked,
    response_id: Option<String>,
    counted: Option<Counted>,
    stop: Option<String>,
    /// In the order in which they began, which is the order of the parts.
    blocks: Vec<Block>,
    /// Positions by the index that events name them by.
    by_index: HashMap<u64, usize>,
    complete: bool,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct MessageStart {
    message: StartedMessage,
}

#[derive(Deserialize)]
struct StartedMessage {
    id: Option<String>,
    model: Option<String>,
    #[serde(default)]
    usage: Counted,
}

#[derive(Deserialize)]
struct BlockStart {
    index: u64,
    content_block: Fields,
}

#[derive(Deserialize)]
struct BlockDelta {
    index: u64,
    delta: Fields,
}

#[derive(Deserialize)]
struct BlockStop {
    index: u64,
}

#[derive(Deserialize)]
struct MessageDelta {
    #[serde(default)]
    delta: Ending,
    usage: Option<Counted>,
}

#[derive(Default, Deserialize)]
struct Ending {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct ErrorEvent {
    error: ApiError,
}

impl Reader {
    pub(super) fn new(request: &ModelRequest) -> Self {
        Self {
            asked: Asked::of(request, Output::enforced),
            response_id: None,
            counted: None,
            stop: None,
            blocks: Vec::new(),
            by_index: HashMap::new(),
            complete: false,
        }
    }

    fn message_start(&mut self, data: &str) -> Result<(), ModelError> {
        let MessageStart { message } = read("a message_start event", data)?;
        self.response_id = message.id;
        self.asked.reported(message.model);
        self.counted = Some(message.usage);
        Ok(())
    }

    fn block_start(&mut self, data: &str) -> Result<Vec<Delta>, ModelError> {
        let BlockStart { index, content_block } = read("a content_block_start event", data)?;
        let at = self.blocks.len();
        let block = Block::new(content_block);
        let begun = match block.kind.as_str() {
            "text" => written(DeltaKind::Text, block.text()),
            "thinking" => written(DeltaKind::Thinking, block.thinking()),
            _ if block.is_call() && !self.is_answer(&block) => {
                Some(DeltaKind::CallStarted { name: self.asked.names.ours(&block.name()) })
            }
            _ => None,
        };
        self.blocks.push(block);
        self.by_index.insert(index, at);
        Ok(deltas(at, begun))
    }

    fn block_delta(&mut self, data: &str) -> Result<Vec<Delta>, ModelError> {
        let BlockDelta { index, delta } = read("a content_block_delta event", data)?;
        let Some(piece) = piece(&delta) else { return Ok(Vec::new()) };
        let at = self.position(index)?;
        let kind = match (&piece, &self.blocks[at]) {
            (Piece::Text(text), block) if block.kind == "text" => written(DeltaKind::Text, text),
            (Piece::Thinking(text), block) if block.kind == "thinking" => written(DeltaKind::Thinking, text),
            (Piece::Input(json), block) if self.is_answer(block) => written(DeltaKind::Text, json),
            (Piece::Input(json), block) if block.is_call() => written(DeltaKind::CallArguments, json),
            _ => None,
        };
        self.blocks[at].add(piece);
        Ok(deltas(at, kind))
    }

    fn block_stop(&mut self, data: &str) -> Result<Vec<Delta>, ModelError> {
        let BlockStop { index } = read("a content_block_stop event", data)?;
        let at = self.position(index)?;
        let block = &self.blocks[at];
        // Some gateways send the arguments with the start of the block and no deltas.
        let whole = (!block.has_input_deltas()).then(|| block.arguments_text());
        let kinds = if self.is_answer(block) {
            vec![whole.and_then(|json| written(DeltaKind::Text, json))]
        } else if block.is_call() {
            vec![whole.and_then(|json| written(DeltaKind::CallArguments, json)), Some(DeltaKind::CallDone)]
        } else if block.provider_result().is_some() {
            vec![self.provider_tool(block).map(|name| DeltaKind::ProviderToolDone { name })]
        } else {
            Vec::new()
        };
        Ok(deltas(at, kinds.into_iter().flatten()))
    }

    fn message_delta(&mut self, data: &str) -> Result<(), ModelError> {
        let MessageDelta { delta, usage } = read("a message_delta event", data)?;
        self.stop = delta.stop_reason.or_else(|| self.stop.take());
        self.counted = Some(self.counted.unwrap_or_default().then(usage.unwrap_or_default()));
        Ok(())
    }

    fn position(&self, index: u64) -> Result<usize, ModelError> {
        self.by_index.get(&index).copied().ok_or_else(|| {
            ModelError::new(ErrorClass::Server, "the provider sent an event for a block that has not begun")
        })
    }

    fn is_answer(&self, block: &Block) -> bool {
        block.is_call() && self.asked.is_answer(&block.name())
    }

    /// The name of the provider's own tool that a block is about. A result after a pause has its call in an earlier
    /// answer; then the kind of the block tells.
    fn provider_tool(&self, block: &Block) -> Option<String> {
        if block.is_provider_call() {
            return Some(block.name());
        }
        let kind = block.provider_result()?;
        let id = block.tool_use_id();
        let call = self.blocks.iter().find(|call| call.is_provider_call() && call.id() == id);
        Some(call.map_or_else(|| kind.to_owned(), Block::name))
    }

    fn part(&self, block: &Block) -> Part {
        if self.is_answer(block) {
            // The answer is plain text to the run. It has no item: a call that is sent back needs a result.
            return Part::text(block.arguments_text());
        }
        block.part(&self.asked.provider, &self.asked.names, self.provider_tool(block).as_deref())
    }

    fn stop(&self, parts: &[Part]) -> StopReason {
        let calls = parts.iter().any(|part| matches!(part.content, Content::ToolUse { .. }));
        let answered = self.blocks.iter().any(|block| self.is_answer(block));
        let malformed = |block: &Block| {
            block.is_call() && !self.is_answer(block) && matches!(block.arguments(), Arguments::Malformed(_))
        };
        match stop_reason(self.stop.as_deref()) {
            // An answer that was cut off or withheld has that as its reason, even if its last call cannot be read.
            reason @ (StopReason::MaxTokens | StopReason::Refusal | StopReason::ContextWindow) => reason,
            _ if self.blocks.iter().any(malformed) => StopReason::MalformedCall,
            StopReason::ToolUse if answered && !calls => StopReason::EndTurn,
            reason => reason,
        }
    }
}

fn stop_reason(word: Option<&str>) -> StopReason {
    match word {
        None => StopReason::default(),
        Some("model_context_window_exceeded") => StopReason::ContextWindow,
        // The other words of this provider are the words of the protocol.
        Some(word) => StopReason::from(word),
    }
}

/// What a delta adds. `None` for a kind that is not known.
fn piece(delta: &Fields) -> Option<Piece> {
    let text = |name: &str| delta.text(name).unwrap_or_default();
    Some(match text("type").as_str() {
        "text_delta" => Piece::Text(text("text")),
        "thinking_delta" => Piece::Thinking(text("thinking")),
        "signature_delta" => Piece::Signature(text("signature")),
        "citations_delta" => Piece::Citation(delta.get("citation")?.to_owned()),
        "input_json_delta" => Piece::Input(text("partial_json")),
        _ => return None,
    })
}

fn written(kind: fn(String) -> DeltaKind, text: &str) -> Option<DeltaKind> {
    (!text.is_empty()).then(|| kind(text.to_owned()))
}

fn deltas(part: usize, kinds: impl IntoIterator<Item = DeltaKind>) -> Vec<Delta> {
    kinds.into_iter().map(|kind| Delta::of(part, kind)).collect()
}

impl StreamReader for Reader {
    fn event(&mut self, name: Option<&str>, data: &str) -> Result<Vec<Delta>, ModelError> {
        let Kind { kind } = read("an event", data)?;
        match kind.as_deref().or(name) {
            Some("message_start") => self.message_start(data)?,
            Some("content_block_start") => return self.block_start(data),
            Some("content_block_delta") => return self.block_delta(data),
            Some("content_block_stop") => return self.block_stop(data),
            Some("message_delta") => self.message_delta(data)?,
            Some("message_stop") => self.complete = true,
            Some("error") => return Err(failure::of_event(&read::<ErrorEvent>("an error event", data)?.error)),
            // `ping` keeps the stream alive. Events that are not known are passed over.
            _ => {}
        }
        Ok(Vec::new())
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn usage(&self) -> TokenUsage {
        self.counted.map(|counted| counted.usage(self.asked.full_model())).unwrap_or_default()
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        if !self.complete {
            return Err(cut_off());
        }
        let parts: Vec<Part> = self.blocks.iter().map(|block| self.part(block)).collect();
        Ok(ModelResponse {
            stop: self.stop(&parts),
            parts,
            awaits: Vec::new(),
            usage: self.usage(),
            response_id: self.response_id,
            enforced: self.asked.enforced,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stop_reason_of_the_api_is_known() {
        let table = [
            (Some("end_turn"), StopReason::EndTurn),
            (Some("tool_use"), StopReason::ToolUse),
            (Some("max_tokens"), StopReason::MaxTokens),
            (Some("stop_sequence"), StopReason::StopSequence),
            (Some("refusal"), StopReason::Refusal),
            (Some("pause_turn"), StopReason::PauseTurn),
            (Some("model_context_window_exceeded"), StopReason::ContextWindow),
            (Some("brand_new"), StopReason::Other("brand_new".into())),
            (None, StopReason::EndTurn),
        ];
        for (word, reason) in table {
            assert_eq!(stop_reason(word), reason, "{word:?}");
        }
    }
}
