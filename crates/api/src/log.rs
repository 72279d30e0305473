//! The log of one run as frames, a page at a time.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;
use windlass_core::{agent::AgentDefinition, event::Event, ids::RunId};
use windlass_ops::complete_entry;
use windlass_store::{Store, StoreError};

use crate::{
    frames::{self, RunFacts},
    models::Catalogue,
};

/// How many events are read at once.
const PAGE: usize = 64;

/// The form in which events are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// Frames of the agent-runs protocol.
    Frames,
    /// Entries of the log, for operators.
    Entries,
    /// Events, for readers that make their own frames.
    Events,
}

pub(crate) struct Log {
    pub(crate) run: RunId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) form: Form,
    models: Arc<Catalogue>,
    /// Facts of the run's definition, loaded when the first frame needs them.
    facts: OnceCell<RunFacts>,
}

/// Consecutive events, ready to be sent. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Whether the log may have more events.
    pub(crate) full: bool,
    /// Whether the last event is the terminal one.
    pub(crate) terminal: bool,
    pub(crate) frames: Bytes,
    /// Only of the form `Events`, with the arguments of awaits.
    pub(crate) events: Arc<[Event]>,
}

impl Log {
    pub(crate) fn new(store: Arc<dyn Store>, models: Arc<Catalogue>, run: RunId, form: Form) -> Self {
        Self { run, store, form, models, facts: OnceCell::new() }
    }

    /// The events after `seq`, if there are any yet.
    pub(crate) async fn after(&self, seq: u64) -> Result<Option<Page>, StoreError> {
        let events = self.store.events(&self.run, seq, PAGE as u32).await?;
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(None) };
        let (first, last, terminal, full) = (first.seq, last.seq, last.is_terminal(), events.len() == PAGE);
        let (mut text, mut kept) = (String::new(), Vec::new());
        for event in events {
            match self.form {
                Form::Events => kept.push(complete_entry(&*self.store, event).await?),
                Form::Frames | Form::Entries => text.extend(self.text_of(event).await?),
            }
        }
        Ok(Some(Page { first, last, full, terminal, frames: Bytes::from(text), events: kept.into() }))
    }

    /// `None` if a stream of this form does not send the event.
    async fn text_of(&self, event: Event) -> Result<Option<String>, StoreError> {
        let frame = match self.form {
            Form::Entries | Form::Events => {
                return Ok(Some(frames::entry(&complete_entry(&*self.store, event).await?)));
            }
            Form::Frames if frames::needs_facts(&event) => {
                let facts = self.facts.get_or_try_init(|| self.load_facts()).await?;
                frames::frame(&event, facts, &self.models)
            }
            Form::Frames => frames::frame(&event, &RunFacts::default(), &self.models),
        };
        Ok(frame.map(|frame| frame.sse()))
    }

    /// Without a readable definition the frames lack its details, and the stream goes on.
    async fn load_facts(&self) -> Result<RunFacts, StoreError> {
        let digest = self.store.run(&self.run).await?.and_then(|row| row.agent_digest);
        let body = match digest {
            Some(digest) => self.store.blob(&digest).await?,
            None => None,
        };
        let definition = body.and_then(|body| body.decode::<AgentDefinition>().ok());
        Ok(definition.as_ref().map(RunFacts::of).unwrap_or_default())
    }
}
