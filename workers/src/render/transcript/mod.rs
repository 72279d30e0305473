//! A run's conversation: messages, calls and results, questions and answers, in order.
//!
//! The transcript has the complete bodies. The log has the order, the times and the actors. They are merged here. Results of
//! the current turn are only in the log, so they are taken from there.

mod lines;

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use serde_json::{Value, json};
use windlass_core::{
    canonical::CanonicalJson,
    envelope::{Actor, ToolError},
    event::{AwaitClosure, Event, EventBody},
    ids::{AwaitId, CallId, ToolName},
    message::{Content, Message, Part, Role, plain_text},
    run::NUDGE_MARK,
    time::{Millis, Timestamp},
};

pub use self::lines::transcript_lines;

/// One entry of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Entry {
    Message {
        /// 1 for the first message of the transcript.
        index: u64,
        role: Role,
        /// Without tool results: they are entries of their own.
        parts: Vec<Part>,
        /// It is part of the session's conversation before this run.
        #[serde(skip_serializing_if = "is_false")]
        earlier: bool,
        /// A message of the runtime, not of a person.
        #[serde(skip_serializing_if = "is_false")]
        runtime: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        turn: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    Result {
        call_id: CallId,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<ToolName>,
        ok: bool,
        /// As the model reads it; absent while it is too large for the log and not in the transcript yet.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        duration_ms: Option<Millis>,
        #[serde(skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    Answer {
        await_id: AwaitId,
        outcome: AwaitClosure,
        #[serde(skip_serializing_if = "Option::is_none")]
        actor: Option<Actor>,
        /// The text, whole, or the reason for a decision.
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        at: Timestamp,
    },
    /// An entry of the log that belongs to the conversation: a question, a child, a pause, the end.
    Event { event: Event },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Merges a run's messages and its log. `opening` messages existed before the first turn, `earlier` of them before the run.
pub fn conversation(messages: &[Message], opening: u64, earlier: u64, log: &[Event]) -> Vec<Entry> {
    let mut merge =
        Merge { messages, next: 0, emitted: BTreeSet::new(), results: results(messages), entries: Vec::new() };
    while merge.next < messages.len() && (merge.next as u64) < opening {
        merge.message(None, (merge.next as u64) < earlier);
    }
    for event in log {
        merge.event(event);
    }
    // Messages without an event.
    while merge.next < messages.len() {
        merge.message(None, false);
    }
    merge.entries
}

type Results<'a> = HashMap<&'a CallId, (Value, bool)>;

fn results(messages: &[Message]) -> Results<'_> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    parts.filter_map(result).collect()
}

fn result(part: &Part) -> Option<(&CallId, (Value, bool))> {
    match &part.content {
        Content::ToolResult { tool_use_id, content, parts, is_error } => {
            Some((tool_use_id, (shown_result(content, parts), *is_error)))
        }
        _ => None,
    }
}

struct Merge<'a> {
    messages: &'a [Message],
    /// The first message that was not emitted yet.
    next: usize,
    /// Messages that were already emitted as answers or steering texts.
    emitted: BTreeSet<usize>,
    /// Results that were not emitted yet.
    results: Results<'a>,
    entries: Vec<Entry>,
}

impl Merge<'_> {
    fn event(&mut self, event: &Event) {
        let Ok(body) = event.body() else { return };
        match body {
            EventBody::AssistantMessage { turn, .. } => self.turn(turn, event.at),
            EventBody::ToolResult { tool_use_id, name, ok, result, result_bytes, error, telemetry, .. } => {
                let kept = self.results.remove(&tool_use_id).map(|(content, _)| content);
                self.entries.push(Entry::Result {
                    content: kept
                        .or_else(|| result.map(|result| result.to_value()))
                        .or_else(|| error.as_ref().map(failure)),
                    call_id: tool_use_id,
                    name: Some(name),
                    ok,
                    bytes: Some(result_bytes),
                    duration_ms: telemetry.map(|facts| facts.duration_ms),
                    at: Some(event.at),
                });
            }
            EventBody::AwaitClosed { await_id, outcome, actor, answer } => {
                let answer = answer.map(|words| self.whole(&words).unwrap_or(words));
                self.entries.push(Entry::Answer { await_id, outcome, actor, answer, at: event.at });
            }
            EventBody::Steered { text, requested_by } => {
                let text = self.whole(&text).unwrap_or(text);
                let steered = EventBody::Steered { text, requested_by }.split();
                let data = steered.map_or_else(|_| event.data.clone(), |(_, data)| data);
                self.entries.push(Entry::Event { event: Event { data, ..event.clone() } });
            }
            EventBody::AwaitOpened { .. }
            | EventBody::ChildRunLinked { .. }
            | EventBody::Paused { .. }
            | EventBody::Resumed { .. }
            | EventBody::Finalizing { .. }
            | EventBody::Result { .. }
            | EventBody::Error { .. }
            | EventBody::Cancelled { .. } => self.entries.push(Entry::Event { event: event.clone() }),
            _ => {}
        }
    }

    /// Emits everything before the model's message, then the message.
    fn turn(&mut self, turn: u32, at: Timestamp) {
        while let Some(message) = self.messages.get(self.next) {
            if message.role == Role::Assistant {
                return self.message(Some((turn, at)), false);
            }
            self.message(None, false);
        }
    }

    fn message(&mut self, turn: Option<(u32, Timestamp)>, earlier: bool) {
        let index = self.next;
        let Some(message) = self.messages.get(index) else { return };
        self.next += 1;
        for part in &message.parts {
            if let Content::ToolResult { tool_use_id, .. } = &part.content
                && let Some((content, is_error)) = self.results.remove(tool_use_id)
            {
                self.entries.push(Entry::Result {
                    call_id: tool_use_id.clone(),
                    name: None,
                    ok: !is_error,
                    content: Some(content),
                    bytes: None,
                    duration_ms: None,
                    at: None,
                });
            }
        }
        let said = |part: &&Part| !matches!(part.content, Content::ToolResult { .. } | Content::CacheCheckpoint);
        let parts: Vec<Part> = message.parts.iter().filter(said).cloned().collect();
        if self.emitted.contains(&index) || (parts.is_empty() && message.role != Role::Assistant) {
            return;
        }
        self.entries.push(Entry::Message {
            index: index as u64 + 1,
            role: message.role,
            parts,
            earlier,
            runtime: message.meta.get(NUDGE_MARK) == Some(&Value::Bool(true)),
            turn: turn.map(|(turn, _)| turn),
            at: turn.map(|(_, at)| at),
        });
    }

    /// The complete text of an event: the next user message that begins with it. That message is emitted with the event.
    fn whole(&mut self, words: &str) -> Option<String> {
        let known = words.strip_suffix('…').unwrap_or(words);
        let rest = self.messages.iter().enumerate().skip(self.next);
        let mut rest = rest.filter(|(index, message)| message.role == Role::User && !self.emitted.contains(index));
        let (index, text) = rest.find_map(|(index, message)| {
            let text = message.plain_text();
            (text.trim() == words || (known != words && text.trim().starts_with(known))).then_some((index, text))
        })?;
        self.emitted.insert(index);
        Some(text)
    }
}

/// A result for people: the structured content, or the text of its parts.
fn shown_result(content: &CanonicalJson, parts: &[Part]) -> Value {
    match content.to_value() {
        Value::Null if !parts.is_empty() => Value::String(plain_text(parts)),
        value => value,
    }
}

/// A failure as the model reads it.
fn failure(error: &ToolError) -> Value {
    json!({"error": error.message, "kind": error.kind})
}

#[cfg(test)]
mod tests;
