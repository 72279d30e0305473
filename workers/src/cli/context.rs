//! What a client command works with: the server, the store, and how to speak.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use futures_util::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use windlass_core::{event::Event, ids::RunId, message::Message, time::Timestamp};
use windlass_ops::{Pairing, RunOps, complete_entry};
use windlass_store::{
    RunRow, Store,
    postgres::PostgresStore,
    sqlite::{Options, SqliteStore},
};

use super::{Failure, Global, Output, failed};
use crate::{render::Hint, stores::AnyStore, temporal::connect};

#[derive(Clone)]
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
        // A look claims nothing.
        let how = if missing == Missing::Create { Pairing::Claim } else { Pairing::Look };
        let paired = ops.pair(how).await?;
        let ops = if paired.kept { ops } else { ops.checking_owners() };
        Ok(Self { ops, out: Output::new(global.json), hint: global.hint() })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.ops.store()
    }

    /// The run's row. A run that no worker has opened yet has none.
    pub(crate) async fn row(&self, run: &RunId) -> Result<Option<RunRow>, Failure> {
        let row = self.store().run(run).await?;
        match &row {
            None => self.ops.exists(run).await?,
            // If its workflow is gone it ends here, so that its readers do not wait.
            Some(open) if open.closed_at.is_none() => match self.ops.end_if_closed_externally(run).await {
                Ok(true) => return Ok(self.store().run(run).await?),
                Ok(false) => {}
                Err(error) => tracing::debug!(%run, %error, "the run cannot be compared with the server's"),
            },
            Some(_) => {}
        }
        Ok(row)
    }

    /// The run's log after `after`, as far as it reaches by now; awaits come with all arguments.
    pub(crate) async fn events(&self, run: &RunId, after: u64) -> Result<Vec<Event>, Failure> {
        let mut events = self.ops.events(run, after).await?;
        for event in &mut events {
            *event = complete_entry(&**self.store(), event.clone()).await?;
        }
        Ok(events)
    }

    /// The messages of the run's conversation; how many it began with, and how many of those were its session's.
    pub(crate) async fn transcript(&self, run: &RunId) -> Result<(Vec<Message>, u64, u64), Failure> {
        const PAGE: u32 = 200;
        let mut messages = Vec::new();
        loop {
            let page = self.store().transcript_page(run, messages.len() as u64, PAGE).await?;
            let more = page.messages.len() == PAGE as usize;
            messages.extend(page.messages.into_iter().map(|(_, message)| message));
            if !more {
                return Ok((messages, page.opening, page.earlier));
            }
        }
    }

    /// The log after `after`, and whatever is appended to it, until the run has ended.
    pub(crate) fn log(&self, run: &RunId, after: u64) -> BoxStream<'static, Result<Event, Failure>> {
        let (context, run) = (self.clone(), run.clone());
        // Watched before it is read: nothing falls in between.
        let watch = context.store().watch(&run);
        let pages = stream::try_unfold(Some((context, run, watch, after)), async |reading| {
            let Some((context, run, mut watch, after)) = reading else { return Ok(None) };
            loop {
                // Asked before the log is read: an end in between must not hide the event that says so.
                let closed = context.store().run(&run).await?.is_some_and(|row| row.closed_at.is_some());
                let events = context.events(&run, after).await?;
                if let Some((last, terminal)) = events.last().map(|event| (event.seq, event.is_terminal())) {
                    return Ok(Some((events, (!terminal).then_some((context, run, watch, last)))));
                }
                // Nothing comes after the last event, also if reading began there.
                if closed {
                    return Ok::<_, Failure>(None);
                }
                watch.changed().await;
            }
        });
        pages.map_ok(|events| stream::iter(events.into_iter().map(Ok))).try_flatten().boxed()
    }
}
