//! Reading runs: from their workflows if a worker responds, from their logs if none does.

use std::{future::Future, time::Duration};

use windlass_core::{
    awaits::{AwaitView, pending_in},
    envelope::RunStatusView,
    event::{Event, EventBody},
    heartbeat::Heartbeat,
    ids::RunId,
    run::RunStatus,
    time::Timestamp,
};
use windlass_store::{Blobs, StoreError};

use super::{OpsError, RunOps};

/// How long a query waits for a worker.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// How many events are read at once.
const PAGE: u32 = 500;

impl RunOps {
    /// The status from the run's workflow; `None` until the run is open, and while no worker responds.
    pub async fn live(&self, run: &RunId) -> Result<Option<RunStatusView>, OpsError> {
        Ok(in_time(self.status(run)).await?.flatten())
    }

    /// The open awaits of the run, and what its sub-agents ask people, with the arguments of their calls: from the
    /// workflows or, while no worker responds, from the log.
    pub async fn pending(&self, run: &RunId) -> Result<Vec<AwaitView>, OpsError> {
        let mut items = match in_time(self.awaits(run)).await? {
            Some(mut items) => {
                items.extend(Box::pin(self.pending_below(run)).await?);
                items
            }
            None => pending_in(&self.events(run, 0).await?),
        };
        for item in &mut items {
            complete(&**self.store(), item).await?;
        }
        Ok(items)
    }

    /// The last heartbeat of a running activity of this run.
    pub async fn heartbeat(&self, run: &RunId, activity: &str) -> Result<Option<Heartbeat>, OpsError> {
        let described = self.handle(run).describe(Default::default()).await;
        let described = described.map_err(|error| OpsError::interaction(run, &error))?;
        let mut pending = described.raw_description.pending_activities.into_iter();
        let found = pending.find(|pending| pending.activity_id == activity);
        Ok(found.and_then(|pending| {
            let at = pending.last_heartbeat_time?;
            let millis =
                u64::try_from(at.seconds).unwrap_or(0) * 1000 + u64::try_from(at.nanos).unwrap_or(0) / 1_000_000;
            let payloads = pending.heartbeat_details.map(|details| details.payloads).unwrap_or_default();
            let details = payloads.iter().filter_map(|payload| serde_json::from_slice(&payload.data).ok()).collect();
            let attempt = u32::try_from(pending.attempt).unwrap_or(1);
            Some(Heartbeat { attempt, at: Timestamp(millis), details })
        }))
    }

    /// What the child runs of a run ask people.
    async fn pending_below(&self, root: &RunId) -> Result<Vec<AwaitView>, OpsError> {
        let mut found = Vec::new();
        let Some(row) = self.store().run(root).await? else { return Ok(found) };
        let mut open: Vec<_> = row.children.into_iter().map(|child| (child, vec![row.agent_id.clone()])).collect();
        while let Some((child, above)) = open.pop() {
            let Some(row) = self.store().run(&child).await? else { continue };
            if row.status.is_terminal() {
                continue;
            }
            let path = [above, vec![row.agent_id]].concat();
            if row.status == RunStatus::Waiting {
                let items = in_time(self.awaits(&child)).await?.unwrap_or_default().into_iter();
                let items = items.filter(AwaitView::asks_a_person);
                found.extend(items.filter_map(|item| item.seen_from(root, &child, path.clone())));
            }
            open.extend(row.children.into_iter().map(|below| (below, path.clone())));
        }
        found.sort_by_key(|item| item.opened_at);
        Ok(found)
    }

    /// The run's log after `after`, as it is now.
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

/// Adds the arguments of an await's calls that are above the inline limit.
pub async fn complete(store: &dyn Blobs, item: &mut AwaitView) -> Result<(), StoreError> {
    for call in item.calls.iter_mut().filter(|call| call.args.is_none()) {
        call.args = store.blob(&call.digest).await?;
    }
    Ok(())
}

/// An entry of the log, with the arguments of the await that it opens, if it does.
pub async fn complete_entry(store: &dyn Blobs, mut event: Event) -> Result<Event, StoreError> {
    if let Ok(EventBody::AwaitOpened { mut item } | EventBody::ChildAwaitOpened { mut item }) = event.body() {
        complete(store, &mut item).await?;
        // Both kinds have the same data.
        if let Ok((_, data)) = (EventBody::AwaitOpened { item }).split() {
            event.data = data;
        }
    }
    Ok(event)
}

/// The reply of a worker, or `None` if none comes in time.
async fn in_time<T>(asked: impl Future<Output = Result<T, OpsError>>) -> Result<Option<T>, OpsError> {
    match tokio::time::timeout(QUERY_TIMEOUT, asked).await {
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(OpsError::Unanswered { .. })) | Err(_) => Ok(None),
        Ok(Err(error)) => Err(error),
    }
}
