//! One workflow execution and the rules it lives by.
//!
//! Everything here is memory and arithmetic: no clock, no disk, no queue. An operation changes the run and leaves in
//! [`Changes`] what the world must do about it: events to write, tasks to hand out, runs to create. The order of events
//! is the protocol's: what a worker decided comes first, what happened meanwhile follows, then the next workflow task.

mod activities;
mod builds;
mod chain;
mod commands;
mod complete;
mod control;
mod deadlines;
mod events;
mod external;
mod orphans;
pub(crate) mod outbox;
mod problems;
pub(crate) mod queries;
mod rebuild;
mod reset;
pub(crate) mod retry;
mod start;
pub(crate) mod state;
mod task;
#[cfg(test)]
mod tests;
pub(crate) mod updates;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use temporalio_protos::temporal::api::{
    common::v1::SearchAttributes,
    history::v1::{ActivityTaskScheduledEventAttributes, HistoryEvent},
};

pub(crate) use self::{
    activities::{ActivityFailure, StartedActivity, activity_not_found},
    commands::{memo_without_empty_values, text, without_empty_values},
    complete::task_not_found,
    control::Signal,
    rebuild::Identity,
    reset::{Excluded, Fork, part},
    start::{StartSpec, run_timeout, task_timeout},
    state::RunState,
    task::{StartedTask, Worker},
};
use self::{
    queries::PendingQuery,
    updates::{Registry, UpdateChange},
};
use crate::{limits::Limits, service_error::ServiceError, time::Nanos};

/// What an operation may ask of its surroundings.
pub(crate) struct Env<'a> {
    pub(crate) now: Nanos,
    pub(crate) limits: &'a Limits,
    /// A new unique id.
    pub(crate) new_id: &'a dyn Fn() -> String,
    /// A number below the given one, by chance.
    pub(crate) chance: &'a dyn Fn(i64) -> i64,
    /// The id of a namespace, if it exists.
    pub(crate) namespace_id: &'a dyn Fn(&str) -> Option<String>,
    /// Refuses search attributes that the namespace does not know, and notes the type beside each value.
    pub(crate) check_attributes: &'a dyn Fn(&mut SearchAttributes) -> Result<(), ServiceError>,
}

#[derive(Debug)]
pub(crate) struct Run {
    /// The run's row.
    pub(crate) number: i64,
    pub(crate) state: RunState,
    pub(crate) memory: Memory,
    changes: Changes,
}

/// What a restart forgets.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) sticky: Option<Sticky>,
    /// The worker that had the run in its cache when something was written last. The real server keeps that, and falls
    /// back to it when it has refused something.
    pub(crate) kept_sticky: Option<Sticky>,
    /// When the workflow task is given up that waits for a worker; zero if it may wait for ever.
    pub(crate) task_waits_until: Nanos,
    /// Who has the started workflow task.
    pub(crate) task_identity: String,
    /// A started workflow task that nobody could be told of.
    pub(crate) undelivered: Option<Undelivered>,
    /// The last worker wanted to end the run, but there was news.
    pub(crate) close_attempted: bool,
    /// Recent events: all those after the last completed workflow task was started, and sometimes more.
    pub(crate) tail: Vec<HistoryEvent>,
    /// What pending activities were scheduled with. Those of a run that was loaded are read again when needed.
    pub(crate) scheduled: BTreeMap<i64, Arc<ActivityTaskScheduledEventAttributes>>,
    pub(crate) updates: Registry,
    /// Questions that go to the worker with the pending workflow task.
    pub(crate) queries: Vec<Arc<PendingQuery>>,
    /// When the run's alarm rings next; zero if none is set.
    pub(crate) wakeup_set: Nanos,
    /// Writes of this run that are not on disk yet.
    pub(crate) unsynced: Arc<AtomicUsize>,
    /// There are signs of life of activities that no write has taken along yet.
    pub(crate) unwritten_heartbeats: bool,
    /// Before this moment activities may have shown signs of life that nobody remembers.
    pub(crate) remembers_from: Nanos,
}

/// A workflow task that was started for a worker which then could not be given it.
#[derive(Debug)]
pub(crate) struct Undelivered {
    /// As what it is queued again.
    pub(crate) scheduled_id: i64,
    /// The start that is meant.
    pub(crate) request_id: String,
}

/// The worker that has the run in its cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sticky {
    pub(crate) queue: String,
    pub(crate) schedule_to_start: Nanos,
}

/// What the world must do after an operation.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) events: Vec<HistoryEvent>,
    /// Events that a new run shares with the one it was made from, in the batches in which they were written. They come
    /// before all others.
    pub(crate) inherited: Vec<Vec<HistoryEvent>>,
    pub(crate) dispatches: Vec<Dispatch>,
    /// What lists show has changed.
    pub(crate) listing: bool,
    /// The next run of the chain; it becomes current in the same step.
    pub(crate) successor: Option<Box<Run>>,
    pub(crate) updates: Vec<UpdateChange>,
    /// A speculative task has begun after all that is to be kept.
    pub(crate) speculates: bool,
    /// The run differs from what is on disk.
    pub(crate) dirty: bool,
}

/// A task for whoever polls the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Dispatch {
    Workflow { queue: String, sticky: bool, scheduled_id: i64 },
    Activity { queue: String, scheduled_id: i64, attempt: i32 },
}

impl Run {
    /// A run as it was left on disk.
    pub(crate) fn loaded(number: i64, state: RunState) -> Self {
        Self { number, state, memory: Memory::default(), changes: Changes::default() }
    }

    /// The real server reads a run anew after it has refused something. It does not know any more which updates ended with
    /// the run, which of those that a reset brought along a worker has seen, that a worker wanted to end the run, or that
    /// a worker has it in its cache or has dropped it since. Queries that wait for a task are asked anew.
    pub(crate) fn drop_transient_state(&mut self) {
        self.forget_queries();
        self.memory.updates.clear_aborted_and_seen();
        self.memory.close_attempted = false;
        self.memory.sticky.clone_from(&self.memory.kept_sticky);
    }

    /// Ends an operation: what happened is put in order, and a workflow task is scheduled if there is news.
    pub(crate) fn settle(&mut self, env: &Env<'_>) -> Changes {
        self.write_speculative_task(env);
        if self.state.is_running() && !self.has_started_task() {
            self.flush();
        } else if !self.state.is_running() {
            self.state.buffered.clear();
            // No worker takes an activity that was scheduled in the step that ended the run.
            self.changes.dispatches.retain(|dispatch| !matches!(dispatch, Dispatch::Activity { .. }));
        }
        if self.changes.dirty {
            self.state.state_transitions += 1;
            self.memory.unwritten_heartbeats = false;
            self.memory.kept_sticky.clone_from(&self.memory.sticky);
        }
        std::mem::take(&mut self.changes)
    }

    /// Ends an operation that turned out not to change anything worth keeping.
    pub(crate) fn settle_in_memory(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Events this operation has written so far.
    pub(crate) fn written_events(&self) -> Vec<HistoryEvent> {
        self.changes.events.clone()
    }

    fn touch(&mut self) {
        self.changes.dirty = true;
    }
}

impl Run {
    /// Nothing is lost if the run is read from disk when it is needed again.
    pub(crate) fn is_idle(&self) -> bool {
        !self.has_started_task()
            && !self.task_comes_back()
            && self.memory.updates.is_empty()
            && self.memory.queries.is_empty()
            && !self.memory.unwritten_heartbeats
            && self.memory.unsynced.load(Ordering::Acquire) == 0
    }
}
