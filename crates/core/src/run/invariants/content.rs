//! What a simulated model writes beside its calls: parts of every kind, of kinds that no build knows, and the provider's
//! own items, in any order. They are made as the JSON in which they must be in the transcript.

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use crate::stop::StopReason;

/// A part, or an item of the provider for a call; numbers choose what it says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    kind: u8,
    says: u8,
    /// Before which call of the turn it stands.
    place: u8,
    /// Whether the provider's own form of it comes along.
    item: u8,
}

pub(super) fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(kind, says, place, item)| Piece {
        kind,
        says,
        place,
        item,
    });
    prop_oneof![1 => Just(Vec::new()), 4 => vec(piece, 1..=6)]
}

/// Mostly a reason with which the run goes on, so that runs live long enough.
pub(super) fn stop() -> impl Strategy<Value = StopReason> {
    let unknown = prop::sample::select(vec!["stop", "recitation", "SAFETY", ""]);
    prop_oneof![
        30 => Just(StopReason::EndTurn),
        30 => Just(StopReason::ToolUse),
        4 => Just(StopReason::StopSequence),
        6 => unknown.prop_map(StopReason::from),
        6 => Just(StopReason::PauseTurn),
        4 => Just(StopReason::MaxTokens),
        2 => Just(StopReason::MalformedCall),
        1 => Just(StopReason::Refusal),
        1 => Just(StopReason::ContentFilter),
        1 => Just(StopReason::ContextWindow),
    ]
}

/// The parts of a message: its calls in their order, with the pieces among them.
pub(super) fn parts(pieces: &[Piece], calls: Vec<Value>) -> Vec<Value> {
    let places = calls.len() + 1;
    let mut parts: Vec<Vec<Value>> = vec![Vec::new(); places];
    for piece in pieces {
        parts[usize::from(piece.place) % places].push(piece.part());
    }
    for (index, mut call) in calls.into_iter().enumerate() {
        if let Some(piece) = pieces.get(index) {
            piece.add_item(&mut call);
        }
        parts[index].push(call);
    }
    parts.into_iter().flatten().collect()
}

impl Piece {
    fn part(self) -> Value {
        const TEXTS: [&str; 5] =
            ["", "so", "é\u{1f300} \"quoted\"\n", "</tool>{\"a\":1}", "a longer thought about tides"];
        let text = TEXTS[usize::from(self.says) % TEXTS.len()];
        let number = i64::from(self.says) - 100;
        let mut part = match self.kind % 14 {
            0..=2 => json!({"kind": "text", "text": text}),
            3 => json!({"kind": "thinking", "text": format!("hm {number}"), "signature": format!("c2ln{number}==")}),
            4 => json!({"kind": "thinking", "redacted": format!("AAEC{number}")}),
            5 => {
                json!({"kind": "provider_tool", "name": "web_search", "input": {"q": text}, "output": [{"n": number}, null]})
            }
            6 => json!({"kind": "provider_tool", "name": "run_code", "output": number}),
            7 => {
                let location = json!({"unit": "page", "documentIndex": 0, "start": 1, "end": 2});
                json!({"kind": "citations", "text": text, "citations": [{"title": "t", "location": location, "sourceContent": [text]}]})
            }
            8 => json!({"kind": "cache_checkpoint"}),
            9 => json!({"kind": "image", "format": "png", "bytes": "AAEC"}),
            10 => json!({"kind": "hologram", "beam": [number, 0.5, {"deep": [null, true]}], "text": text}),
            // Known kinds with what this build does not know of them.
            11 => json!({"kind": "text", "text": text, "shade": {"hex": number}}),
            12 => json!({"kind": "image", "format": "avif", "source": {"tape": text}}),
            _ => json!({"kind": "thinking", "text": ["not", "a", "text"]}),
        };
        self.add_item(&mut part);
        part
    }

    /// Items are not canonical JSON and must stay as they are.
    fn add_item(self, part: &mut Value) {
        let item = match self.item % 8 {
            0 => format!("{{ \"type\":\"x\",  \"n\":{}.0, \"id\":\"toolu_{}\" }}", self.says, self.place),
            1 => "{\"b\":1,\"a\":\"\\u00e9\"}\n".to_owned(),
            2 => format!("[1e3,{}]", self.says),
            _ => return,
        };
        part["providerItem"] =
            json!({"provider": if self.says.is_multiple_of(2) { "anthropic" } else { "openai" }, "item": item});
    }
}
