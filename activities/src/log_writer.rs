//! Appends events to a run's log beside an activity's work, in order and in batches.

use std::sync::Arc;

use tokio::{sync::mpsc, task::JoinHandle};
use windlass_core::{event::NewEvent, ids::RunId};
use windlass_store::{Store, StoreError};

/// The log of one run.
#[derive(Clone)]
pub(crate) struct EventLog {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) run: RunId,
}

/// A task that appends events. While one append is in progress the next events are buffered.
pub(crate) struct LogWriter {
    sender: mpsc::Sender<NewEvent>,
    task: JoinHandle<Result<(), StoreError>>,
}

/// The log takes no more events.
pub(crate) struct Closed;

impl EventLog {
    /// `backlog` events may be buffered before the sender waits for the store.
    pub(crate) fn writer(&self, backlog: usize) -> LogWriter {
        let (sender, mut receiver) = mpsc::channel::<NewEvent>(backlog);
        let Self { store, run } = self.clone();
        let task = tokio::spawn(async move {
            let mut batch = Vec::new();
            while receiver.recv_many(&mut batch, backlog).await > 0 {
                store.append_events(&run, std::mem::take(&mut batch)).await?;
            }
            Ok(())
        });
        LogWriter { sender, task }
    }
}

impl LogWriter {
    pub(crate) async fn append(&self, event: NewEvent) -> Result<(), Closed> {
        self.sender.send(event).await.map_err(|_| Closed)
    }

    /// Waits until every event is in the log.
    pub(crate) async fn finish(self) -> Result<(), StoreError> {
        drop(self.sender);
        // The task does not panic and is never aborted.
        self.task.await.unwrap_or(Ok(()))
    }
}
