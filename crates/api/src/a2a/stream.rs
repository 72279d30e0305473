//! The updates of a task, from the run's log.
//!
//! A stream begins with the task as it is, then sends what changes. Both come from the log: a client that opens the stream
//! again, at whichever server, gets the task as it is by then.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use a2a::{StreamResponse, Task, TaskState};
use windlass_core::{ids::AwaitId, row::RunRow};
use windlass_ops::complete;

use super::{error::Result, progress::Progress, task::Ids, visit::Visit};
use crate::{
    error::ApiError,
    log::Form,
    reader::{CutOff, Read, Reader},
};

/// When a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// When the task has ended.
    Terminal,
    /// Also when it waits for input: the client has to send the next message.
    Interrupted,
}

/// A reader of a task's updates.
pub(crate) struct Updates {
    reader: Reader,
    progress: Progress,
    until: Until,
    waiting: VecDeque<StreamResponse>,
    ended: bool,
}

/// What a stream sends.
pub(crate) enum Update {
    /// With whether it is the last one.
    Event(Box<StreamResponse>, bool),
    KeepAlive,
}

impl Updates {
    /// Reads the log up to now. `answered` is an await whose answer the run has just accepted.
    pub(crate) async fn open(visit: &Visit, row: &RunRow, until: Until, answered: Option<&AwaitId>) -> Result<Self> {
        let mut progress = Progress::new(Ids::of(row), row.created_at);
        let log = visit.app.ops.events(&row.id, 0).await.map_err(ApiError::from)?;
        for event in &log {
            progress.take(event);
        }
        if let Some(answered) = answered {
            progress.answered(answered);
        }
        for item in progress.awaits_mut() {
            complete(visit.app.store(), item).await.map_err(ApiError::from)?;
        }
        let read = log.last().map_or(0, |event| event.seq);
        let reader = Reader::new(Arc::clone(&visit.app), row.clone(), Form::Events, read);
        let ended = until.reached(&progress.status().state);
        Ok(Self { reader, progress, until, waiting: VecDeque::new(), ended })
    }

    /// The task as it was when the log was read.
    pub(crate) fn task(&self) -> Task {
        self.progress.task()
    }

    /// Sends the task first.
    pub(crate) fn beginning_with(mut self, task: Task) -> Self {
        self.waiting.push_front(StreamResponse::Task(task));
        self
    }

    pub(crate) async fn next(&mut self) -> std::result::Result<Option<Update>, CutOff> {
        loop {
            if let Some(update) = self.waiting.pop_front() {
                let last = self.ended && self.waiting.is_empty();
                return Ok(Some(Update::Event(Box::new(update), last)));
            }
            if self.ended {
                return Ok(None);
            }
            match self.reader.next().await? {
                Some(Read::Page(page)) => {
                    for event in page.events.iter() {
                        self.waiting.extend(self.progress.take(event));
                        self.ended = self.until.reached(&self.progress.status().state);
                        if self.ended {
                            break;
                        }
                    }
                }
                Some(Read::Silence) => return Ok(Some(Update::KeepAlive)),
                None => self.ended = true,
            }
        }
    }

    /// Waits for the end of the updates, but not longer than this.
    pub(crate) async fn drain(mut self, limit: Duration) {
        let end = async { while let Ok(Some(_)) = self.next().await {} };
        // The caller looks at the task itself.
        let _ = tokio::time::timeout(limit, end).await;
    }
}

impl Until {
    fn reached(self, state: &TaskState) -> bool {
        state.is_terminal() || (self == Self::Interrupted && *state == TaskState::InputRequired)
    }
}
