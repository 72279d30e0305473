//! Conversations this worker has read lately, so that a turn does not read the whole of it again.
//!
//! An entry is known by its head, which names the exact messages: a conversation that has gone on elsewhere has another
//! head and is read from the store. Nothing here is the truth, and all of it may be forgotten.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use windlass_core::{
    envelope::TranscriptHead,
    ids::RunId,
    message::{Message, Part},
};

/// About as much text is kept.
const MOST_BYTES: usize = 32 << 20;

#[derive(Debug, Default)]
pub(crate) struct Conversations {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_run: HashMap<RunId, Conversation>,
    bytes: usize,
    turn: u64,
}

#[derive(Debug)]
struct Conversation {
    head: TranscriptHead,
    messages: Arc<Vec<Message>>,
    bytes: usize,
    used: u64,
}

impl Conversations {
    /// Takes a conversation out, if it is kept and stands exactly there.
    pub(crate) fn take(&self, run: &RunId, head: TranscriptHead) -> Option<Arc<Vec<Message>>> {
        let mut kept = self.lock();
        let found = kept.by_run.remove(run)?;
        kept.bytes -= found.bytes;
        (found.head == head).then_some(found.messages)
    }

    /// Keeps a conversation for the run's next turn. Those that were used longest ago make room.
    pub(crate) fn keep(&self, run: RunId, head: TranscriptHead, messages: Arc<Vec<Message>>) {
        let bytes = messages.iter().map(size).sum();
        let mut kept = self.lock();
        kept.turn += 1;
        let used = kept.turn;
        kept.bytes += bytes;
        if let Some(replaced) = kept.by_run.insert(run, Conversation { head, messages, bytes, used }) {
            kept.bytes -= replaced.bytes;
        }
        while kept.bytes > MOST_BYTES {
            let oldest = kept.by_run.iter().min_by_key(|(_, conversation)| conversation.used);
            let Some(run) = oldest.map(|(run, _)| run.clone()) else { break };
            if let Some(gone) = kept.by_run.remove(&run) {
                kept.bytes -= gone.bytes;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Roughly what a message takes; values are counted by a part of what they hold.
fn size(message: &Message) -> usize {
    const EACH: usize = 200;
    const VALUE: usize = 2000;
    let part = |part: &Part| match part {
        Part::Text { text } | Part::Thinking { text, .. } | Part::Citations { text, .. } => EACH + text.len(),
        Part::ToolUse { .. } | Part::ToolResult { .. } => EACH + VALUE,
        Part::Image { .. } | Part::Document { .. } | Part::CacheCheckpoint => EACH,
    };
    EACH + message.parts.iter().map(part).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use windlass_core::canonical::Digest;

    use super::*;

    fn head(len: u64) -> TranscriptHead {
        TranscriptHead { len, digest: Digest::of_bytes(&len.to_be_bytes()) }
    }

    fn conversation(text: &str) -> Arc<Vec<Message>> {
        Arc::new(vec![Message::user(text)])
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
