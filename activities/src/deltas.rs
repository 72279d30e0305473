//! Writes deltas to the event log. While one append is in progress the next deltas are buffered, so a fast model costs
//! few commits and a slow one shows every delta at once.

use async_trait::async_trait;
use windlass_core::event::{EventBody, NewEvent};
use windlass_models::{Delta, DeltaKind, DeltaSink, ErrorClass, ModelError};
use windlass_store::StoreError;

use crate::log_writer::{EventLog, LogWriter};

/// How many deltas may be buffered before the model call waits for the store.
const BACKLOG: usize = 1024;

pub(crate) struct DeltaLog {
    log: EventLog,
    turn: u32,
    attempt: u32,
    count: u64,
    /// Created with the first delta: many answers have none.
    writer: Option<LogWriter>,
    /// The text so far, up to the size of an event. An answer that fails is reported with it.
    text: String,
}

impl DeltaLog {
    pub(crate) fn new(log: EventLog, turn: u32, attempt: u32) -> Self {
        Self { log, turn, attempt, count: 0, writer: None, text: String::new() }
    }

    /// Waits until every delta is in the log; returns the text.
    pub(crate) async fn finish(self) -> (String, Result<(), StoreError>) {
        let written = match self.writer {
            Some(writer) => writer.finish().await,
            None => Ok(()),
        };
        (self.text, written)
    }

    fn remember(&mut self, text: &str) {
        let free = usize::try_from(EventBody::SHOWN_BYTES).unwrap_or(usize::MAX).saturating_sub(self.text.len());
        self.text.push_str(&text[..text.floor_char_boundary(free)]);
    }

    /// What a delta is in the log. Arguments of calls are in the `assistant_message` that follows.
    fn event(&mut self, Delta { part, kind }: Delta) -> Option<EventBody> {
        let (turn, attempt) = (self.turn, self.attempt);
        match kind {
            DeltaKind::Text(text) => {
                self.remember(&text);
                Some(EventBody::AssistantDelta { text, turn, attempt, part })
            }
            DeltaKind::Thinking(text) => Some(EventBody::ThinkingDelta { text, turn, attempt, part }),
            DeltaKind::ProviderToolDone { name } => Some(EventBody::ProviderTool { name, turn, attempt, part }),
            DeltaKind::CallStarted { .. } | DeltaKind::CallArguments(_) | DeltaKind::CallDone => None,
        }
    }
}

#[async_trait]
impl DeltaSink for DeltaLog {
    async fn push(&mut self, delta: Delta) -> Result<(), ModelError> {
        let Some(body) = self.event(delta) else { return Ok(()) };
        self.count += 1;
        let event = NewEvent::new(format!("turn/{}/{}/{}", self.turn, self.attempt, self.count), body);
        let writer = self.writer.get_or_insert_with(|| self.log.writer(BACKLOG));
        writer.append(event).await.map_err(|_| {
            ModelError::new(ErrorClass::Cancelled, "the run's log takes no more events; the answer is not wanted")
        })
    }
}
