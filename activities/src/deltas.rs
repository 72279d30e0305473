//! Deltas on their way into the event log. While one append is under way the next ones gather, so a fast model costs
//! few commits and a slow one shows every word at once.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::{sync::mpsc, task::JoinHandle};
use windlass_core::{
    event::{EventBody, NewEvent},
    ids::RunId,
};
use windlass_models::{Delta, DeltaSink, ErrorClass, ModelError};
use windlass_store::{Store, StoreError};

/// How many deltas may wait for the store before the model has to.
const BACKLOG: usize = 1024;

pub(crate) struct DeltaLog {
    store: Arc<dyn Store>,
    run: RunId,
    turn: u32,
    attempt: u32,
    count: u64,
    /// There from the first delta on: many answers have none.
    writer: Option<Writer>,
    /// The text so far, as much of it as an event may show: all that is left of an answer that fails.
    said: String,
}

struct Writer {
    sender: mpsc::Sender<NewEvent>,
    task: JoinHandle<Result<(), StoreError>>,
}

impl DeltaLog {
    pub(crate) fn new(store: Arc<dyn Store>, run: RunId, turn: u32, attempt: u32) -> Self {
        Self { store, run, turn, attempt, count: 0, writer: None, said: String::new() }
    }

    /// Waits until every delta is in the log; says what the text was.
    pub(crate) async fn finish(self) -> (String, Result<(), StoreError>) {
        let Some(Writer { sender, task }) = self.writer else { return (self.said, Ok(())) };
        drop(sender);
        // The writer does not panic and is never aborted.
        (self.said, task.await.unwrap_or(Ok(())))
    }

    fn remember(&mut self, text: &str) {
        let room = usize::try_from(EventBody::SHOWN_BYTES).unwrap_or(usize::MAX).saturating_sub(self.said.len());
        self.said.push_str(&text[..text.floor_char_boundary(room)]);
    }

    fn writer(&mut self) -> &Writer {
        self.writer.get_or_insert_with(|| {
            let (sender, mut receiver) = mpsc::channel::<NewEvent>(BACKLOG);
            let (store, run) = (Arc::clone(&self.store), self.run.clone());
            let task = tokio::spawn(async move {
                let mut batch = Vec::new();
                while receiver.recv_many(&mut batch, BACKLOG).await > 0 {
                    store.append_events(&run, std::mem::take(&mut batch)).await?;
                }
                Ok(())
            });
            Writer { sender, task }
        })
    }
}

#[async_trait]
impl DeltaSink for DeltaLog {
    async fn push(&mut self, delta: Delta) -> Result<(), ModelError> {
        let (turn, attempt) = (self.turn, self.attempt);
        let body = match delta {
            Delta::Text(text) => {
                self.remember(&text);
                EventBody::AssistantDelta { text, turn, attempt }
            }
            Delta::Thinking(text) => EventBody::ThinkingDelta { text, turn, attempt },
        };
        self.count += 1;
        let event = NewEvent::new(format!("turn/{turn}/{attempt}/{}", self.count), body);
        self.writer().sender.send(event).await.map_err(|_| {
            ModelError::new(ErrorClass::Cancelled, "the run's log takes no more events; the answer is not wanted")
        })
    }
}
