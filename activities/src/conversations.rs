//! Conversations this worker has read lately, so that a turn does not read the whole of it again.
//!
//! An entry is known by its head, which names the exact messages: a conversation that has gone on elsewhere has another
//! head and is read from the store. Nothing here is the truth, and all of it may be forgotten.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use windlass_core::{
    envelope::TranscriptHead,
    ids::RunId,
    message::{Message, Part},
};

/// About as much memory is used.
const MOST_BYTES: usize = 32 << 20;

/// Messages in order, and about how much memory they take.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Conversation {
    messages: Arc<Vec<Message>>,
    bytes: usize,
}

impl Conversation {
    /// Shared, but only for as long as nothing is added.
    pub(crate) fn messages(&self) -> Arc<Vec<Message>> {
        Arc::clone(&self.messages)
    }
}

impl Extend<Message> for Conversation {
    fn extend<I: IntoIterator<Item = Message>>(&mut self, messages: I) {
        let bytes = &mut self.bytes;
        Arc::make_mut(&mut self.messages).extend(messages.into_iter().inspect(|message| *bytes += size(message)));
    }
}

#[derive(Debug, Default)]
pub(crate) struct Conversations {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_run: HashMap<RunId, Entry>,
    /// Runs by when they were last used.
    by_use: BTreeMap<u64, RunId>,
    bytes: usize,
    turn: u64,
}

#[derive(Debug)]
struct Entry {
    head: TranscriptHead,
    conversation: Conversation,
    used: u64,
}

impl Conversations {
    /// Takes a conversation out, if it is kept and stands exactly there.
    pub(crate) fn take(&self, run: &RunId, head: TranscriptHead) -> Option<Conversation> {
        let found = self.lock().remove(run)?;
        (found.head == head).then_some(found.conversation)
    }

    /// Keeps a conversation for the run's next turn. Those that were used longest ago make room.
    pub(crate) fn keep(&self, run: RunId, head: TranscriptHead, conversation: Conversation) {
        let mut kept = self.lock();
        kept.remove(&run);
        kept.turn += 1;
        kept.bytes += conversation.bytes;
        let used = kept.turn;
        kept.by_use.insert(used, run.clone());
        kept.by_run.insert(run, Entry { head, conversation, used });
        while kept.bytes > MOST_BYTES {
            let Some((_, run)) = kept.by_use.pop_first() else { break };
            kept.remove(&run);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, run: &RunId) -> Option<Entry> {
        let entry = self.by_run.remove(run)?;
        self.by_use.remove(&entry.used);
        self.bytes -= entry.conversation.bytes;
        Some(entry)
    }
}

/// What a part, a value or a field takes beside its text.
const EACH: usize = 100;

fn size(message: &Message) -> usize {
    let part = |part: &Part| match part {
        Part::Text { text } | Part::Thinking { text, .. } | Part::Citations { text, .. } => text.len(),
        Part::ToolUse { input, .. } => size_of_value(input),
        Part::ToolResult { content, .. } => size_of_value(content),
        Part::Image { .. } | Part::Document { .. } | Part::CacheCheckpoint => 0,
    };
    EACH + message.parts.iter().map(|it| 2 * EACH + part(it)).sum::<usize>()
}

fn size_of_value(value: &Value) -> usize {
    EACH + match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(size_of_value).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + size_of_value(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::canonical::Digest;

    use super::*;

    fn head(len: u64) -> TranscriptHead {
        TranscriptHead { len, digest: Digest::of_bytes(&len.to_be_bytes()) }
    }

    fn conversation(text: &str) -> Conversation {
        let mut conversation = Conversation::default();
        conversation.extend([Message::user(text)]);
        conversation
    }

    #[test]
    fn only_the_very_same_conversation_is_found() {
        let conversations = Conversations::default();
        let (ann, bob) = (RunId::new("ann"), RunId::new("bob"));
        conversations.keep(ann.clone(), head(1), conversation("hello"));
        assert_eq!(conversations.take(&bob, head(1)), None);
        assert_eq!(conversations.take(&ann, head(2)), None, "it stands elsewhere, so it is forgotten");
        assert_eq!(conversations.take(&ann, head(1)), None);
        conversations.keep(ann.clone(), head(3), conversation("again"));
        assert_eq!(conversations.take(&ann, head(3)), Some(conversation("again")));
    }

    #[test]
    fn the_least_recently_used_make_room() {
        let conversations = Conversations::default();
        let large = "x".repeat(MOST_BYTES / 3);
        for name in ["a", "b", "c"] {
            conversations.keep(RunId::new(name), head(1), conversation(&large));
        }
        assert_eq!(conversations.take(&RunId::new("a"), head(1)), None);
        assert!(conversations.take(&RunId::new("c"), head(1)).is_some());
        assert!(conversations.take(&RunId::new("b"), head(1)).is_some());
    }
}
