//! What a client command works with: the server, the store, and how to speak.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use windlass_core::{
    awaits::AwaitView,
    event::{Event, EventBody},
    ids::{AwaitId, RunId},
    time::Timestamp,
};
use windlass_ops::{OpsError, RunOps};
use windlass_store::{
    RunRow, Store,
    postgres::PostgresStore,
    sqlite::{Options, SqliteStore},
};

use super::{Failure, Global, Output, failed};
use crate::{render::Hint, stores::AnyStore, temporal::connect};

/// How long a worker may take to answer a question about a run.
const WORKER_PATIENCE: Duration = Duration::from_secs(2);
/// How many events are read at once.
const PAGE: u32 = 500;

pub(crate) struct Context {
    pub(crate) ops: RunOps,
    pub(crate) out: Output,
    pub(crate) hint: Hint,
}

/// Whether a store that does not exist is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    /// A reader would only find it empty; the directory is probably wrong.
    Refuse,
}

/// Opens the Postgres store if there is one, else that of the data directory.
pub(crate) async fn open_store(global: &Global, missing: Missing) -> Result<AnyStore, Failure> {
    if let Some(options) = global.postgres()? {
        return Ok(AnyStore::Postgres(Arc::new(PostgresStore::connect(options).await?)));
    }
    look_for_store(global, missing)?;
    Ok(AnyStore::Sqlite(Arc::new(SqliteStore::open(Options::new(global.store_path()))?)))
}

/// Fails unless the data directory has a store, or may get one.
pub(crate) fn look_for_store(global: &Global, missing: Missing) -> Result<(), Failure> {
    let path = global.store_path();
    if missing == Missing::Create || path.exists() {
        return Ok(());
    }
    Err(failed(format!(
        "there is no store at {}; start `windlass dev` or `windlass worker` first, or give its --data-dir",
        path.display()
    )))
}

pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

impl Context {
    pub(crate) async fn open(global: &Global, missing: Missing) -> Result<Self, Failure> {
        let store = open_store(global, missing).await?.port();
        let client = connect(&global.connect("cli")?).await?;
        let ops = RunOps::new(client, store, global.task_queue.clone(), global.workspace.clone());
        Ok(Self { ops, out: Output::new(global.json), hint: global.hint() })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.ops.store()
    }

    /// The run's row. A run that no worker has opened yet has none.
    pub(crate) async fn row(&self, run: &RunId) -> Result<Option<RunRow>, Failure> {
        let row = self.store().run(run).await?;
        if row.is_none() {
            self.ops.exists(run).await?;
        }
        Ok(row)
    }

    /// All events after `after`.
    pub(crate) async fn events(&self, run: &RunId, after: u64) -> Result<Vec<Event>, Failure> {
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

    /// What the run waits for: from its workflow or, while no worker answers, from its log.
    pub(crate) async fn pending(&self, run: &RunId) -> Result<Vec<AwaitView>, Failure> {
        let mut items = match in_time(self.ops.awaits(run)).await? {
            Some(items) => items,
            None => pending_in(&self.events(run, 0).await?),
        };
        for item in &mut items {
            self.complete(item).await?;
        }
        Ok(items)
    }

    /// An await of the run, pending or not.
    pub(crate) async fn opened(&self, run: &RunId, id: &AwaitId) -> Result<Option<AwaitView>, Failure> {
        let events = self.events(run, 0).await?;
        let Some(mut item) = events.iter().find_map(|event| match event.body() {
            Ok(EventBody::AwaitOpened { item }) if item.id == *id => Some(item),
            _ => None,
        }) else {
            return Ok(None);
        };
        self.complete(&mut item).await?;
        Ok(Some(item))
    }

    /// Whoever answers must see the arguments, also those that were too large to travel.
    pub(crate) async fn complete(&self, item: &mut AwaitView) -> Result<(), Failure> {
        for call in item.calls.iter_mut().filter(|call| call.args.is_none()) {
            call.args = self.store().blob(&call.digest).await?;
        }
        Ok(())
    }
}

/// The answer of a worker, unless none comes in time.
pub(crate) async fn in_time<T>(asked: impl Future<Output = Result<T, OpsError>>) -> Result<Option<T>, OpsError> {
    match tokio::time::timeout(WORKER_PATIENCE, asked).await {
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(OpsError::Unanswered { .. })) | Err(_) => Ok(None),
        Ok(Err(error)) => Err(error),
    }
}

/// Awaits that a log opened and did not close.
fn pending_in(events: &[Event]) -> Vec<AwaitView> {
    let mut pending: Vec<AwaitView> = Vec::new();
    for event in events {
        match event.body() {
            Ok(EventBody::AwaitOpened { item }) => pending.push(item),
            Ok(EventBody::AwaitClosed { await_id, .. }) => pending.retain(|item| item.id != await_id),
            _ => {}
        }
    }
    pending
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_log_knows_what_is_pending() {
        let event =
            |kind: &str, data: Value| Event { seq: 1, at: Timestamp(0), key: "k".into(), kind: kind.into(), data };
        let opened = |id: &str| {
            let item = json!({"id": id, "kind": "clarification", "prompt": "?", "openedAt": 0, "onExpiry": "replan"});
            event("await_opened", json!({"item": item}))
        };
        let log = [
            opened("await-1"),
            opened("await-2"),
            event("await_closed", json!({"awaitId": "await-1", "outcome": "answered"})),
            event("hologram", json!({})),
        ];
        let pending: Vec<String> = pending_in(&log).into_iter().map(|item| item.id.to_string()).collect();
        assert_eq!(pending, ["await-2"]);
    }
}
