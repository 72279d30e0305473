//! A cache of conversations, so that a turn does not read the whole conversation again.
//!
//! An entry is addressed by its head, which identifies the exact messages: a conversation that continued on another
//! worker has another head and is read from the store. Every entry may be evicted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use windlass_core::{
    canonical::CanonicalJson,
    envelope::TranscriptHead,
    ids::RunId,
    message::{Content, DocumentSource, ImageSource, Message, Part},
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
    /// Removes and returns the conversation, if the cache has it with exactly this head.
    pub(crate) fn take(&self, run: &RunId, head: TranscriptHead) -> Option<Conversation> {
        let found = self.lock().remove(run)?;
        (found.head == head).then_some(found.conversation)
    }

    /// Keeps a conversation for the run's next turn. The least recently used ones are evicted.
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

/// What a part or a field takes beside its text.
const EACH: usize = 100;

fn size(message: &Message) -> usize {
    EACH + message.parts.iter().map(size_of_part).sum::<usize>()
}

fn size_of_part(part: &Part) -> usize {
    let json = |json: &CanonicalJson| json.as_str().len();
    let content = match &part.content {
        Content::Text { text } => text.len(),
        Content::Thinking { text, signature, redacted } => {
            text.len() + [signature, redacted].into_iter().flatten().map(String::len).sum::<usize>()
        }
        Content::Citations { text, citations } => {
            let quoted = citations.iter().flat_map(|citation| &citation.source_content);
            text.len() + EACH * citations.len() + quoted.map(String::len).sum::<usize>()
        }
        Content::ToolUse { input, .. } => json(input),
        Content::ToolResult { content, parts, .. } => json(content) + parts.iter().map(size_of_part).sum::<usize>(),
        Content::Image { source: ImageSource::Bytes(data) | ImageSource::Uri(data), .. } => data.len(),
        Content::Document {
            source: DocumentSource::Bytes(data) | DocumentSource::Text(data) | DocumentSource::Uri(data),
            ..
        } => data.len(),
        Content::Document { source: DocumentSource::Chunks(chunks), .. } => chunks.iter().map(String::len).sum(),
        Content::ProviderTool { input, output, .. } => input.iter().chain(output).map(json).sum(),
        Content::Image { source: ImageSource::Blob(_), .. }
        | Content::Document { source: DocumentSource::Blob(_), .. }
        | Content::CacheCheckpoint
        | Content::Other { .. } => 0,
    };
    let item = part.provider_item.as_ref().map_or(0, |item| item.item.len());
    let extra: usize = part.extra.iter().map(|(name, value)| EACH + name.len() + json(value)).sum();
    2 * EACH + content + item + extra
}

#[cfg(test)]
mod tests {
    use windlass_core::{
        canonical::Digest,
        message::{ImageFormat, Role},
    };

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
    fn files_count_by_their_bytes() {
        let image = |source| Part::from(Content::Image { format: ImageFormat::Png, source });
        let size = |part: Part| size(&Message::new(Role::User, vec![part]));
        let empty = size(image(ImageSource::Bytes(String::new())));
        assert_eq!(size(image(ImageSource::Bytes("x".repeat(1000)))), empty + 1000);
        let signed = image(ImageSource::Bytes(String::new())).with_provider_item("p", "y".repeat(500));
        assert_eq!(size(signed), empty + 500);
    }

    #[test]
    fn the_least_recently_used_are_evicted() {
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
