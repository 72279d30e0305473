//! Looking at runs: at their workflows while a worker answers, at their logs while none does.

use std::{future::Future, time::Duration};

use windlass_core::{
    awaits::{AwaitView, pending_in},
    envelope::RunStatusView,
    event::{Event, EventBody},
    ids::RunId,
};
use windlass_store::{Blobs, StoreError};

use super::{OpsError, RunOps};

/// How long a worker may take to answer a question about a run.
const WORKER_PATIENCE: Duration = Duration::from_secs(2);
/// How many events are read at once.
const PAGE: u32 = 500;

impl RunOps {
    /// The run's state as its workflow sees it; `None` while it is only starting, and while no worker answers.
    pub async fn live(&self, run: &RunId) -> Result<Option<RunStatusView>, OpsError> {
        Ok(in_time(self.status(run)).await?.flatten())
    }

    /// What the run waits for, with all arguments: from its workflow or, while no worker answers, from its log.
    pub async fn pending(&self, run: &RunId) -> Result<Vec<AwaitView>, OpsError> {
        let mut items = match in_time(self.awaits(run)).await? {
            Some(items) => items,
            None => pending_in(&self.events(run, 0).await?),
        };
        for item in &mut items {
            complete(&**self.store(), item).await?;
        }
        Ok(items)
    }

    /// The run's log after `after`, as far as it reaches by now.
    pub async fn events(&self, run: &RunId, after: u64) -> Result<Vec<Event>, OpsError> {
        let mut events = Vec::new();
        loop {
            let from = events.last().map_or(after, |event: &Event| event.seq);
            let page = self.store().events(run, from, PAGE).await?;
            if page.is_empty() {
                return Ok(events);
            }
            events.extend(page);
        }
    }
}

/// An await as whoever answers it must see it: with its arguments, also those that were too large to travel.
pub async fn complete(store: &dyn Blobs, item: &mut AwaitView) -> Result<(), StoreError> {
    for call in item.calls.iter_mut().filter(|call| call.args.is_none()) {
        call.args = store.blob(&call.digest).await?;
    }
    Ok(())
}

/// An entry of the log, complete if an await is opened in it.
pub async fn complete_entry(store: &dyn Blobs, mut event: Event) -> Result<Event, StoreError> {
    if let Ok(EventBody::AwaitOpened { mut item }) = event.body() {
        complete(store, &mut item).await?;
        if let Ok((_, data)) = (EventBody::AwaitOpened { item }).split() {
            event.data = data;
        }
    }
    Ok(event)
}

/// The answer of a worker, unless none comes in time.
async fn in_time<T>(asked: impl Future<Output = Result<T, OpsError>>) -> Result<Option<T>, OpsError> {
    match tokio::time::timeout(WORKER_PATIENCE, asked).await {
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(OpsError::Unanswered { .. })) | Err(_) => Ok(None),
        Ok(Err(error)) => Err(error),
    }
}
