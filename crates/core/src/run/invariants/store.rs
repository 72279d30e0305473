//! The store as the world plays it: a log whose appends are idempotent by key, a transcript whose appends are idempotent
//! by head, and the bodies that did not travel.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Lived, ensure};
use crate::{
    body::Body,
    canonical::{CanonicalJson, Digest},
    envelope::{BlobRef, Outbox, OutboxMessage, ToolCallOutput, TranscriptHead},
    event::NewEvent,
    message::{Content, Message, Role},
};

#[derive(Debug)]
pub(super) struct Store {
    /// An event's `seq` is its place here, from 1.
    pub(super) log: Vec<NewEvent>,
    pub(super) transcript: Vec<Message>,
    /// The head after each number of messages.
    heads: Vec<TranscriptHead>,
    blobs: BTreeMap<Digest, CanonicalJson>,
    /// Every batch that was ever delivered, to deliver it again.
    deliveries: Vec<Vec<NewEvent>>,
}

impl Store {
    pub(super) fn open(messages: Vec<Message>) -> Self {
        let mut store = Self {
            log: Vec::new(),
            transcript: Vec::new(),
            heads: vec![TranscriptHead::default()],
            blobs: BTreeMap::new(),
            deliveries: Vec::new(),
        };
        messages.into_iter().for_each(|message| store.push(message));
        store
    }

    pub(super) fn head(&self) -> TranscriptHead {
        self.heads[self.transcript.len()]
    }

    pub(super) fn put(&mut self, body: CanonicalJson) -> BlobRef {
        let stored = BlobRef::of(&body);
        self.blobs.insert(stored.digest, body);
        stored
    }

    /// A body as it travels; what does not is in the store.
    pub(super) fn fit(&mut self, body: CanonicalJson, limit: u64) -> Body {
        let (body, large) = Body::fit(body, limit);
        large.into_iter().for_each(|large| self.blobs.extend([(large.digest(), large)]));
        body
    }

    pub(super) fn read(&self, body: &Body) -> Lived<CanonicalJson> {
        match body {
            Body::Inline(json) => Ok(json.clone()),
            Body::Stored(stored) => {
                self.blobs.get(&stored.digest).cloned().ok_or_else(|| format!("no body {} in the store", stored.digest))
            }
        }
    }

    pub(super) fn body(&self, digest: Digest) -> CanonicalJson {
        self.blobs[&digest].clone()
    }

    /// Bodies of another run are in the same store.
    pub(super) fn share(&mut self, other: &Self) {
        self.blobs.extend(other.blobs.clone());
    }

    /// What an activity writes of the workflow's outbox, results first.
    pub(super) fn write(
        &mut self,
        head: TranscriptHead,
        results: Vec<ToolCallOutput>,
        outbox: Outbox,
    ) -> Lived<TranscriptHead> {
        let mut messages = Vec::new();
        if !results.is_empty() {
            messages.push(self.results_message(results)?);
        }
        for entry in outbox.messages {
            messages.push(match entry {
                OutboxMessage::Message { message } => message,
                OutboxMessage::ToolResults { results } => self.results_message(results)?,
            });
        }
        let head = self.append(head, messages)?;
        self.log(outbox.events)?;
        Ok(head)
    }

    /// Makes the messages stand right after `head`; those that already do are left alone.
    pub(super) fn append(&mut self, head: TranscriptHead, messages: Vec<Message>) -> Lived<TranscriptHead> {
        let mut at = usize::try_from(head.len).map_err(|error| error.to_string())?;
        ensure!(self.heads.get(at) == Some(&head), "{head:?} is no head of the transcript");
        for message in messages {
            match self.transcript.get(at) {
                Some(stored) => ensure!(*stored == message, "{message:?} would stand where {stored:?} stands"),
                None => self.push(message),
            }
            at += 1;
        }
        Ok(self.heads[at])
    }

    /// A message is kept as text; the transcript is what a later reader makes of it.
    fn push(&mut self, message: Message) {
        let text = CanonicalJson::of(&message).unwrap();
        self.heads.push(self.head().push(text.digest()));
        self.transcript.push(text.decode().unwrap());
    }

    /// Appends the events whose keys are new.
    pub(super) fn log(&mut self, events: Vec<NewEvent>) -> Lived {
        for event in &events {
            match self.log.iter().find(|stored| stored.key == event.key) {
                Some(stored) => ensure!(stored == event, "one key, two events: {stored:?} and {event:?}"),
                None => {
                    let ended = self.log.last().is_some_and(|last| last.body.is_terminal());
                    ensure!(!ended, "{event:?} comes after the terminal event");
                    self.log.push(event.clone());
                }
            }
        }
        self.deliveries.push(events);
        Ok(())
    }

    /// Delivers an old batch once more, as a retried activity would.
    pub(super) fn redeliver(&mut self, pick: u8) -> Lived {
        if self.deliveries.is_empty() {
            return Ok(());
        }
        let batch = self.deliveries[usize::from(pick) % self.deliveries.len()].clone();
        let before = self.log.len();
        self.log(batch)?;
        ensure!(self.log.len() == before, "a redelivery made the log longer");
        Ok(())
    }

    fn results_message(&self, results: Vec<ToolCallOutput>) -> Lived<Message> {
        let mut parts = Vec::new();
        for output in results {
            let (content, is_error) = match (&output.error, output.result()) {
                (Some(error), _) => (json!({"error": error.message, "kind": error.kind}).into(), true),
                (None, Some(result)) => (self.read(&result)?, false),
                (None, None) => (CanonicalJson::null(), false),
            };
            let shown = match output.content() {
                Some(shown) => self.read(&shown)?.decode().map_err(|error| error.to_string())?,
                None => Vec::new(),
            };
            let tool_use_id = output.tool_call_id;
            parts.push(Content::ToolResult { tool_use_id, content, parts: shown, is_error }.into());
        }
        Ok(Message::new(Role::User, parts))
    }
}
