//! One reader of a run's log: the log after a `seq`, then new events.
//!
//! The log is the source of truth. A reader first reads it, then gets new events from the run's tail, and reads the log
//! again when there is a gap between the two, so no event is lost or repeated, however often a reader reconnects and to
//! whichever server.

use std::{result::Result, sync::Arc};

use tokio::time::timeout;
use windlass_core::row::RunRow;
use windlass_store::StoreError;

use crate::{
    app::App,
    log::{Form, Log, Page},
    tails::{Following, Heard},
};

/// The state of one reader.
pub(crate) struct Reader {
    app: Arc<App>,
    log: Arc<Log>,
    /// `None` for a run that has ended.
    tail: Option<Following>,
    after: u64,
    /// Whether the log was read to its end since the tail was joined, so that the rest comes from the tail.
    live: bool,
    ended: bool,
    /// Whether the workflow of a silent run was checked.
    checked: bool,
}

/// Ends the connection without a proper end of the body, so that the client reconnects.
#[derive(Debug, thiserror::Error)]
#[error("the stream was cut off; open it again")]
pub(crate) struct CutOff;

/// What a reader gets.
pub(crate) enum Read {
    Page(Page),
    /// The run was silent for the interval of keep-alive comments.
    Silence,
}

impl Reader {
    /// A reader of the events after `after`.
    pub(crate) fn new(app: Arc<App>, row: RunRow, form: Form, after: u64) -> Self {
        let ended = row.closed_at.is_some() && after >= row.last_seq;
        let log = Arc::new(Log::new(Arc::clone(app.ops.store()), Arc::clone(&app.models), row.id, form));
        let mut reader = Self { app, log, tail: None, after, live: false, ended, checked: false };
        if row.closed_at.is_none() {
            reader.follow(row.last_seq);
        }
        reader
    }

    /// The next page, or silence; `None` after the terminal event. Nothing is fetched before it is asked for, so a slow
    /// reader costs one page of memory.
    pub(crate) async fn next(&mut self) -> Result<Option<Read>, CutOff> {
        if self.ended {
            return Ok(None);
        }
        let draining = self.app.draining.clone();
        let read = match draining.run_until_cancelled(self.read_or_wait()).await {
            Some(Ok(read)) => Ok(Some(read)),
            Some(Err(error)) => {
                tracing::warn!(run = %self.log.run, %error, "stream cut off");
                Err(CutOff)
            }
            None => Err(CutOff),
        };
        self.ended |= read.is_err();
        read
    }

    async fn read_or_wait(&mut self) -> Result<Read, StoreError> {
        loop {
            if !self.live {
                let page = self.log.after(self.after).await?;
                self.live = page.as_ref().is_none_or(|page| !page.full);
                if let Some(page) = page {
                    return Ok(self.take(page));
                }
            }
            let Some(tail) = &mut self.tail else {
                self.follow(self.after);
                continue;
            };
            match timeout(self.app.limits.keep_alive, tail.next()).await {
                Err(_) => {
                    self.check_workflow_once();
                    return Ok(Read::Silence);
                }
                Ok(Heard::Page(page)) if page.last <= self.after => {}
                Ok(Heard::Page(page)) if page.first == self.after + 1 => return Ok(self.take(page)),
                Ok(Heard::Page(_) | Heard::Missed) => self.live = false,
                Ok(Heard::Ended) => self.follow(self.after),
            }
        }
    }

    /// A run may be silent because its workflow is gone. Checked once per reader, because most are silent for other reasons.
    fn check_workflow_once(&mut self) {
        if !std::mem::replace(&mut self.checked, true) {
            let (app, run) = (Arc::clone(&self.app), self.log.run.clone());
            tokio::spawn(async move {
                if let Err(error) = app.ops.end_if_closed_externally(&run).await {
                    tracing::debug!(%run, %error, "cannot check the workflow of a silent run");
                }
            });
        }
    }

    /// Joins the run's tail. The log reaches at least to `known`, and must be read once more after this.
    fn follow(&mut self, known: u64) {
        let following = self.app.tails.follow(&self.log, known);
        self.log = Arc::clone(&following.log);
        (self.tail, self.live) = (Some(following), false);
    }

    fn take(&mut self, page: Page) -> Read {
        self.after = page.last;
        self.ended |= page.terminal;
        Read::Page(page)
    }
}
