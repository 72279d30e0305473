//! Waiting until the server has done all that the last action caused. What a server does on its own, it does in its own
//! time; each such effect is awaited where it shows.
//!
//! Not awaited, because nothing shows it, and therefore kept out of scripts: two effects of one task that land in the
//! same history (their order is chance), and the outcome of an external signal or cancellation while a task is held (it
//! is buffered, and buffered events are invisible). A short timer that fires while a task is held is given time instead.

use std::time::{Duration, Instant};

use temporalio_protos::temporal::api::{
    enums::v1::{
        EventType, ParentClosePolicy, PendingActivityState, PendingWorkflowTaskState, WorkflowExecutionStatus as Status,
    },
    history::v1::{HistoryEvent, history_event::Attributes},
};

use tonic::Code;

use super::{PATIENCE, Player, state::Echo};
use crate::diff::script::Who;

const PAUSE: Duration = Duration::from_millis(15);

/// How long after it was started a timer of fifty milliseconds has surely fired.
const TIMER_GRACE: Duration = Duration::from_millis(1300);

/// The real server deletes a run half a minute after it was asked to.
const DELETION: Duration = Duration::from_secs(90);

impl Player {
    pub(super) async fn settle(&mut self) {
        let deleting = |echo: &Echo| matches!(echo, Echo::Deleted { .. });
        let patience = if self.memory.echoes.iter().any(deleting) { DELETION } else { PATIENCE };
        let deadline = Instant::now() + patience;
        while let Some(unrest) = self.unrest().await {
            if Instant::now() > deadline {
                self.played.restless = true;
                let unrest = self.normal.string(&unrest);
                self.note("the server does not come to rest", unrest);
                self.memory.echoes.clear();
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.look_again().await;
        self.collect_updates().await;
        self.answer_queries().await;
        self.look_again().await;
        self.watch_hurried_tasks();
        self.note_states();
    }

    /// Asks the server for the state of every workflow of the script.
    pub(super) async fn look(&mut self) {
        self.memory.changed_since_look = false;
        for who in self.cast.clone() {
            match self.describe(who, "").await {
                Ok(state) => {
                    let state = state.into_inner();
                    let closed =
                        state.workflow_execution_info.as_ref().map(|info| info.status()) != Some(Status::Running);
                    let (begun, mut never): (Vec<_>, Vec<_>) =
                        state.pending_children.iter().partition(|pending| !pending.run_id.is_empty());
                    // What a closed run did not start any more is still applied to its child of the same id.
                    never.retain(|pending| closed && pending.parent_close_policy() != ParentClosePolicy::Abandon);
                    for pending in begun.into_iter().chain(never) {
                        let child = Who::ALL.into_iter().find(|who| self.id(*who) == pending.workflow_id);
                        self.memory.policies.extend(child.map(|child| (child, pending.parent_close_policy())));
                    }
                    self.memory.states.insert(who, state);
                    let run = self.memory.current_run(who).unwrap_or_default().to_owned();
                    self.memory.see_run(who, &run);
                    if self.memory.status(who) != Some(Status::Running) {
                        self.memory.sticky.remove(&who);
                        self.memory.lost.remove(&who);
                    }
                }
                Err(status) => {
                    self.played.unanswered |= status.code() != Code::NotFound;
                    self.memory.states.remove(&who);
                }
            }
        }
    }

    async fn look_again(&mut self) {
        if self.memory.changed_since_look {
            self.look().await;
        }
    }

    fn note_states(&mut self) {
        for who in self.cast.clone() {
            if self.memory.states.get(&who) == self.memory.noted.get(&who) {
                continue;
            }
            let shown = match self.memory.states.get(&who) {
                Some(state) => self.normal.message(state),
                None => "not found".to_owned(),
            };
            match self.memory.states.get(&who).cloned() {
                Some(state) => drop(self.memory.noted.insert(who, state)),
                None => drop(self.memory.noted.remove(&who)),
            }
            let before = self.memory.shown.get(&who).map_or("not found", String::as_str);
            if before != shown {
                self.note(&format!("state of {who:?}"), shown.clone());
                self.memory.shown.insert(who, shown);
            }
        }
    }

    /// Something that has not happened yet.
    async fn unrest(&mut self) -> Option<String> {
        self.look().await;
        for who in self.cast.clone() {
            if !self.has_begun(who).await {
                return Some(format!("{who:?} has no first task"));
            }
            if let Some(unrest) = self.restless_child(who).or_else(|| self.orphan(who)) {
                return Some(unrest);
            }
        }
        for echo in self.memory.echoes.clone() {
            self.memory.changed_since_look = true;
            if !self.has_arrived(&echo).await {
                return Some(format!("{echo:?}"));
            }
            self.memory.echoes.remove(0);
        }
        None
    }

    /// A delayed start, a retry and a continuation get their first task later.
    async fn has_begun(&mut self, who: Who) -> bool {
        let Some(run) = self.memory.current_run(who).map(str::to_owned) else { return true };
        if self.memory.status(who) != Some(Status::Running) || self.memory.begun.contains(&run) {
            return true;
        }
        self.memory.changed_since_look = true;
        let scheduled = |event: &HistoryEvent| event.event_type() == EventType::WorkflowTaskScheduled;
        let begun = self.memory.task_state(who).is_some() || self.history(who, &run).await.iter().any(scheduled);
        if begun {
            self.memory.begun.insert(run);
        }
        begun
    }

    /// A child that is being started, or whose end its parent does not know yet.
    fn restless_child(&self, parent: Who) -> Option<String> {
        // A closed parent is told nothing, and starts no child any more.
        let state = self.memory.states.get(&parent).filter(|_| self.memory.status(parent) == Some(Status::Running))?;
        for pending in &state.pending_children {
            if pending.run_id.is_empty() {
                return Some(format!("{} is not started", pending.workflow_id));
            }
            let child = Who::ALL.into_iter().find(|who| self.id(*who) == pending.workflow_id)?;
            let info = self.memory.states.get(&child)?.workflow_execution_info.as_ref()?;
            let ended = !matches!(info.status(), Status::Running | Status::ContinuedAsNew);
            let untold = |run: &str| self.memory.untold.contains(&(run.to_owned(), pending.run_id.clone()));
            if ended && info.first_run_id == pending.run_id && !self.memory.current_run(parent).is_some_and(untold) {
                return Some(format!("{parent:?} does not know that {child:?} ended"));
            }
        }
        None
    }

    /// An open child whose parent has closed and whose policy has not been applied.
    fn orphan(&self, child: Who) -> Option<String> {
        let state = self.memory.states.get(&child)?;
        let info = state.workflow_execution_info.as_ref()?;
        if info.status() != Status::Running {
            return None;
        }
        let parent = self.memory.ended_parent(child)?;
        let run = self.memory.current_run(child)?;
        if self.memory.reset.contains(&parent) || self.memory.untold.contains(&(run.to_owned(), parent)) {
            return None;
        }
        let cancelled = state.workflow_extended_info.as_ref().is_some_and(|info| info.cancel_requested);
        match self.memory.policies.get(&child)? {
            ParentClosePolicy::Abandon => None,
            ParentClosePolicy::RequestCancel if cancelled => None,
            policy => Some(format!("{child:?} has no parent and {policy:?} was not applied")),
        }
    }

    async fn has_arrived(&mut self, echo: &Echo) -> bool {
        let (Echo::External { who, run }
        | Echo::Timer { who, run, .. }
        | Echo::QueueTimeout { who, run, .. }
        | Echo::RunTimeout { who, run, .. }
        | Echo::CloseTimeout { who, run, .. }
        | Echo::RunEnds { who, run }
        | Echo::Deleted { who, run }) = echo;
        if let Echo::Deleted { .. } = echo {
            return self.describe(*who, run).await.is_err();
        }
        let current = self.memory.current_run(*who) == Some(run);
        if !current || self.memory.status(*who) != Some(Status::Running) {
            return true;
        }
        let activity_in = |activity: &str, states: &[PendingActivityState]| {
            let pending = &self.memory.states[who].pending_activities;
            pending.iter().any(|pending| pending.activity_id == activity && states.contains(&pending.state()))
        };
        match echo {
            Echo::External { .. } => externals_are_settled(&self.history(*who, run).await),
            Echo::Timer { timer, since, .. } => {
                let held = self.memory.task_state(*who) == Some(PendingWorkflowTaskState::Started);
                if held { since.elapsed() > TIMER_GRACE } else { timer_is_gone(&self.history(*who, run).await, timer) }
            }
            Echo::QueueTimeout { activity, .. } => !activity_in(activity, &[PendingActivityState::Scheduled]),
            Echo::RunTimeout { activity, .. } => {
                !activity_in(activity, &[PendingActivityState::Started, PendingActivityState::CancelRequested])
            }
            Echo::CloseTimeout { activity, .. } => {
                !self.memory.states[who].pending_activities.iter().any(|pending| pending.activity_id == *activity)
            }
            Echo::RunEnds { .. } => false,
            Echo::Deleted { .. } => true,
        }
    }
}

fn externals_are_settled(events: &[HistoryEvent]) -> bool {
    let count = |types: &[EventType]| events.iter().filter(|event| types.contains(&event.event_type())).count();
    let initiated = count(&[
        EventType::SignalExternalWorkflowExecutionInitiated,
        EventType::RequestCancelExternalWorkflowExecutionInitiated,
    ]);
    let settled = count(&[
        EventType::ExternalWorkflowExecutionSignaled,
        EventType::SignalExternalWorkflowExecutionFailed,
        EventType::ExternalWorkflowExecutionCancelRequested,
        EventType::RequestCancelExternalWorkflowExecutionFailed,
    ]);
    initiated == settled
}

/// Whether the timer was started no more often than it fired or was cancelled.
fn timer_is_gone(events: &[HistoryEvent], timer: &str) -> bool {
    let (mut started, mut gone) = (0, 0);
    for event in events {
        match &event.attributes {
            Some(Attributes::TimerStartedEventAttributes(event)) if event.timer_id == timer => started += 1,
            Some(Attributes::TimerFiredEventAttributes(event)) if event.timer_id == timer => gone += 1,
            Some(Attributes::TimerCanceledEventAttributes(event)) if event.timer_id == timer => gone += 1,
            _ => {}
        }
    }
    started <= gone
}
