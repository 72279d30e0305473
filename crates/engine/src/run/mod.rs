//! One workflow execution as pure state.
//!
//! This module uses no clock, no disk and no queue. An operation changes the run and leaves the consequences in
//! [`Changes`]: events to write, tasks to dispatch, runs to create. Events have the order that the protocol requires:
//! first the events of the worker's commands, then the buffered events, then the next workflow task.

mod activities;
mod activity_options;
mod activity_pauses;
mod builds;
pub(crate) mod callbacks;
mod chain;
mod commands;
mod complete;
mod control;
pub(crate) mod cron;
mod deadlines;
mod events;
mod external;
mod inherit;
pub(crate) mod nexus;
mod orphans;
pub(crate) mod outbox;
pub(crate) mod overrides;
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
mod versioning;
mod versions;

use std::{
    collections::{BTreeMap, BTreeSet},
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
    activities::{ActivityFailure, HeartbeatAnswer, StartedActivity, activity_not_found, retries_until},
    activity_options::{OptionsChange, mask_fields},
    activity_pauses::{Reset, Selected, Unpause},
    commands::{memo_without_empty_values, text, without_empty_values},
    complete::task_not_found,
    control::{Attached, Signal},
    inherit::Inherited,
    rebuild::{Identity, SCHEDULED_BY_ID},
    reset::{Excluded, Fork, part},
    start::{StartSpec, cron_initiator, run_timeout, task_timeout},
    state::RunState,
    task::{StartedTask, Worker},
    versioning::{Polled, override_target},
};
use self::{
    queries::PendingQuery,
    updates::{Registry, UpdateChange},
};
use crate::{limits::Limits, service_error::ServiceError, time::Nanos};

/// What an operation gets from its environment.
pub(crate) struct Env<'a> {
    pub(crate) now: Nanos,
    pub(crate) limits: &'a Limits,
    /// A new unique id.
    pub(crate) new_id: &'a dyn Fn() -> String,
    /// A random number below the given one.
    pub(crate) chance: &'a dyn Fn(i64) -> i64,
    /// The id of a namespace, if it exists.
    pub(crate) namespace_id: &'a dyn Fn(&str) -> Option<String>,
    /// Rejects search attributes that the namespace does not have, and adds the type to each value.
    pub(crate) check_attributes: &'a dyn Fn(&mut SearchAttributes) -> Result<(), ServiceError>,
    /// The Nexus endpoint with this id or, if there is none, with this name.
    pub(crate) nexus_endpoint: &'a dyn Fn(&str, &str) -> Option<nexus::Endpoint>,
    /// Whether a version of the workers has a task queue for workflow tasks.
    pub(crate) has_queue: inherit::HasQueue<'a>,
}

#[derive(Debug)]
pub(crate) struct Run {
    /// The run's row number.
    pub(crate) number: i64,
    pub(crate) state: RunState,
    pub(crate) memory: Memory,
    changes: Changes,
}

/// State that is not stored.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) sticky: Option<Sticky>,
    /// The sticky queue at the time of the last write. The real server stores it, and returns to it after an error.
    pub(crate) kept_sticky: Option<Sticky>,
    /// When a workflow task on a sticky queue times out; zero for never.
    pub(crate) task_waits_until: Nanos,
    /// The identity of the worker that has the started workflow task.
    pub(crate) task_identity: String,
    /// A started workflow task whose worker did not get the response.
    pub(crate) undelivered: Option<Undelivered>,
    /// The last worker tried to close the run, but there were new events.
    pub(crate) close_attempted: bool,
    /// Batches of deferred changes, in their order. They are written with the run's next step.
    pub(crate) unwritten: Vec<Vec<HistoryEvent>>,
    /// State was changed by a deferred change.
    pub(crate) deferred: bool,
    /// Recent events: at least all after the start of the last completed workflow task.
    pub(crate) tail: Vec<HistoryEvent>,
    /// The scheduled events of pending activities. After the run was loaded, they are read when needed.
    pub(crate) scheduled: BTreeMap<i64, Arc<ActivityTaskScheduledEventAttributes>>,
    pub(crate) updates: Registry,
    /// Queries that are sent with the pending workflow task.
    pub(crate) queries: Vec<Arc<PendingQuery>>,
    /// The wake-up time that was registered; zero if none.
    pub(crate) wakeup_set: Nanos,
    /// Writes of this run that are not on disk yet.
    pub(crate) unsynced: Arc<AtomicUsize>,
    /// Heartbeats were recorded that are not written yet.
    pub(crate) unwritten_heartbeats: bool,
    /// Nexus requests that a worker has.
    pub(crate) nexus_given: BTreeSet<nexus::NexusKey>,
    /// Heartbeats before this time may have been lost in a restart.
    pub(crate) remembers_from: Nanos,
}

/// A workflow task that was started for a worker that did not get it.
#[derive(Debug)]
pub(crate) struct Undelivered {
    /// The scheduled event under which it is queued again.
    pub(crate) scheduled_id: i64,
    /// The request id of that start.
    pub(crate) request_id: String,
}

/// The sticky queue of the worker that has the run in its cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sticky {
    pub(crate) queue: String,
    pub(crate) schedule_to_start: Nanos,
}

/// The consequences of an operation.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) events: Vec<HistoryEvent>,
    /// Events that a new run shares with its base run, in their original batches. They come before all others.
    pub(crate) inherited: Vec<Vec<HistoryEvent>>,
    pub(crate) dispatches: Vec<Dispatch>,
    /// The listed fields have changed.
    pub(crate) listing: bool,
    /// The next run of the chain; it becomes current in the same step.
    pub(crate) successor: Option<Box<Run>>,
    pub(crate) updates: Vec<UpdateChange>,
    /// A speculative task was scheduled after the events to be stored.
    pub(crate) speculates: bool,
    /// The run differs from its stored state.
    pub(crate) dirty: bool,
    /// The changes may be lost with this process, as if they had never happened.
    pub(crate) deferrable: bool,
    /// The changes may be acknowledged before they are durable.
    pub(crate) relaxed: bool,
}

/// A task to be put into a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Dispatch {
    Workflow {
        queue: String,
        sticky: bool,
        scheduled_id: i64,
    },
    Activity {
        queue: String,
        scheduled_id: i64,
        attempt: i32,
        stamp: i32,
    },
    /// The queue may be in another namespace.
    Nexus {
        namespace: String,
        queue: String,
        key: nexus::NexusKey,
    },
}

impl Run {
    /// A run that was read from disk.
    pub(crate) fn loaded(number: i64, state: RunState) -> Self {
        Self { number, state, memory: Memory::default(), changes: Changes::default() }
    }

    /// The real server reloads a run after an error. It then no longer knows which updates were aborted when the run
    /// closed, which reapplied updates a worker has seen, that a worker tried to close the run, or changes of the
    /// sticky queue since the last write. Queries that wait for a task are dispatched again.
    pub(crate) fn drop_transient_state(&mut self) {
        self.forget_queries();
        self.memory.updates.clear_aborted_and_seen();
        self.memory.close_attempted = false;
        self.memory.sticky.clone_from(&self.memory.kept_sticky);
    }

    /// Ends an operation: orders the buffered events and takes the changes.
    pub(crate) fn settle(&mut self, env: &Env<'_>) -> Changes {
        self.write_speculative_task(env);
        if self.state.is_running() && !self.has_started_task() {
            self.flush();
        } else if !self.state.is_running() {
            self.state.buffered.clear();
            // An activity or operation that was scheduled in the closing step is not dispatched.
            self.changes.dispatches.retain(|dispatch| matches!(dispatch, Dispatch::Workflow { .. }));
        }
        if self.changes.dirty {
            self.state.state_transitions += 1;
            self.memory.unwritten_heartbeats = false;
            self.memory.kept_sticky.clone_from(&self.memory.sticky);
        }
        std::mem::take(&mut self.changes)
    }

    /// Ends an operation that changed nothing that has to be stored.
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

    /// The changes of this operation need not be written before the run's next ones: if the process ends before that, they
    /// end with it, and are made again. For starts of workflow tasks by workers of this process.
    pub(crate) fn defer_changes(&mut self) {
        self.changes.deferrable = true;
    }

    /// The changes of this operation need not be durable before it is acknowledged. For starts of activities by workers of
    /// this process; they are written, because each counts as an attempt.
    pub(crate) fn relax_changes(&mut self) {
        self.changes.relaxed = true;
    }
}

impl Run {
    /// The schedule to be told that the run has closed.
    pub(crate) fn ended_for_schedule(&self) -> Option<&str> {
        (!self.state.is_running() && !self.state.schedule_id.is_empty()).then_some(&*self.state.schedule_id)
    }

    /// Whether the run can be evicted without losing anything.
    pub(crate) fn is_idle(&self) -> bool {
        !self.has_started_task()
            && !self.task_comes_back()
            && self.memory.updates.is_empty()
            && self.memory.queries.is_empty()
            && !self.memory.unwritten_heartbeats
            && !self.memory.deferred
            && self.memory.nexus_given.iter().all(|key| !self.awaits_nexus_answer(*key))
            && self.memory.unsynced.load(Ordering::Acquire) == 0
    }
}
