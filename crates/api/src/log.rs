//! The log of one run as frames, a page at a time.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;
use windlass_core::{agent::AgentDefinition, ids::RunId};
use windlass_store::{Store, StoreError};

use crate::frames::{self, RunFacts};

/// How many events are read at once.
const PAGE: usize = 64;

pub(crate) struct Log {
    pub(crate) run: RunId,
    pub(crate) store: Arc<dyn Store>,
    /// What the run executes, read when the first frame needs it.
    facts: OnceCell<RunFacts>,
}

/// Consecutive events, ready to be sent. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Whether the log may have more by now.
    pub(crate) full: bool,
    /// Whether nothing will ever follow.
    pub(crate) terminal: bool,
    pub(crate) frames: Bytes,
}

impl Log {
    pub(crate) fn new(store: Arc<dyn Store>, run: RunId) -> Self {
        Self { run, store, facts: OnceCell::new() }
    }

    /// What follows `seq`, if anything does yet.
    pub(crate) async fn after(&self, seq: u64) -> Result<Option<Page>, StoreError> {
        let events = self.store.events(&self.run, seq, PAGE as u32).await?;
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(None) };
        let (first, last, terminal) = (first.seq, last.seq, last.is_terminal());
        let mut text = String::new();
        let none = RunFacts::default();
        for event in &events {
            let facts = match frames::needs_facts(event) {
                true => self.facts.get_or_try_init(|| self.load_facts()).await?,
                false => &none,
            };
            text.push_str(&frames::frame(event, facts).sse());
        }
        Ok(Some(Page { first, last, full: events.len() == PAGE, terminal, frames: Bytes::from(text) }))
    }

    /// A definition that cannot be read costs its details, not the stream.
    async fn load_facts(&self) -> Result<RunFacts, StoreError> {
        let digest = self.store.run(&self.run).await?.and_then(|row| row.agent_digest);
        let body = match digest {
            Some(digest) => self.store.blob(&digest).await?,
            None => None,
        };
        let definition = body.and_then(|body| serde_json::from_value::<AgentDefinition>(body).ok());
        Ok(definition.as_ref().map(RunFacts::of).unwrap_or_default())
    }
}
