//! What the player remembers of a script under way.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use temporalio_protos::temporal::api::{
    enums::v1::{ParentClosePolicy, PendingWorkflowTaskState, WorkflowExecutionStatus as Status},
    history::v1::{HistoryEvent, history_event::Attributes},
    protocol::v1::Message,
    workflowservice::v1::DescribeWorkflowExecutionResponse,
};

use super::background::{PendingQuery, PendingUpdate};
use crate::diff::script::Who;

/// A workflow task that was handed out.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) token: Vec<u8>,
    pub(super) messages: Vec<Message>,
    pub(super) queries: Vec<String>,
    /// An error made the server drop the queries; they are sent again, and results of the old ones are ignored.
    pub(super) queries_forgotten: bool,
}

#[derive(Default)]
pub(super) struct Memory {
    /// Every task handed out, in order.
    pub(super) tasks: BTreeMap<Who, Vec<Task>>,
    /// The tokens of every activity handed out, in order.
    pub(super) activities: BTreeMap<(Who, u8), Vec<Vec<u8>>>,
    /// The event that scheduled the activity last.
    pub(super) scheduled: BTreeMap<(Who, u8), i64>,
    /// The runs of a workflow, in the order they were seen.
    pub(super) runs: BTreeMap<Who, Vec<String>>,
    /// Each workflow's current run as the server described it last.
    pub(super) states: BTreeMap<Who, DescribeWorkflowExecutionResponse>,
    /// Whether something happened or was noticed after the states were asked for.
    pub(super) changed_since_look: bool,
    /// What was looked at for changes last.
    pub(super) noted: BTreeMap<Who, DescribeWorkflowExecutionResponse>,
    /// How it was shown last, so that only changes are written down.
    pub(super) shown: BTreeMap<Who, String>,
    /// Runs whose first task is known to have been scheduled.
    pub(super) begun: BTreeSet<String>,
    /// Workflows whose worker was refused, so that what the server held in memory only is gone.
    pub(super) forgotten: BTreeSet<Who>,
    /// Workflows whose next task goes to their sticky queue, and when that queue was last polled.
    pub(super) sticky: BTreeMap<Who, Instant>,
    /// Workflows whose task waits in their sticky queue, though no longer for the worker that polls it.
    pub(super) lost: BTreeSet<Who>,
    /// Workflows whose task waits in their sticky queue for a few seconds only.
    pub(super) impatient: BTreeSet<Who>,
    /// When each workflow's last task was taken.
    pub(super) taken_at: BTreeMap<Who, Instant>,
    /// Workflows whose task times out soon, and since when.
    pub(super) hurried_since: BTreeMap<Who, Instant>,
    /// How many workers have polled before their task was there.
    pub(super) waiting_workers: usize,
    /// Whether any completion so far asked for a sticky queue.
    pub(super) ever_sticky: bool,
    /// What is to become of a child when its parent closes.
    pub(super) policies: BTreeMap<Who, ParentClosePolicy>,
    /// Runs that were ended by a reset; their children go on.
    pub(super) reset: BTreeSet<String>,
    /// A run made by a reset, and the first run of its child or its parent's run, which had closed before: neither is
    /// notified of the other's end.
    pub(super) untold: BTreeSet<(String, String)>,
    /// Activities whose worker has one second.
    pub(super) hurried: BTreeSet<(Who, u8)>,
    /// Updates that were accepted and not yet completed.
    pub(super) accepted: BTreeMap<Who, Vec<String>>,
    pub(super) updates: Vec<PendingUpdate>,
    pub(super) queries: BTreeMap<Who, PendingQuery>,
    pub(super) echoes: Vec<Echo>,
}

/// Something that is bound to happen and has not been seen yet.
#[derive(Debug, Clone)]
pub(super) enum Echo {
    /// Every external signal and cancellation of this run has its outcome.
    External { who: Who, run: String },
    /// A short timer fires.
    Timer { who: Who, run: String, timer: String, since: Instant },
    /// No worker takes the activity in time.
    QueueTimeout { who: Who, run: String, activity: String },
    /// The activity is not finished in time.
    RunTimeout { who: Who, run: String, activity: String },
    /// The activity is not finished in time, whatever its attempts.
    CloseTimeout { who: Who, run: String, activity: String },
    /// The run times out.
    RunEnds { who: Who, run: String },
    /// The run is no longer there.
    Deleted { who: Who, run: String },
}

impl Memory {
    pub(super) fn see_run(&mut self, who: Who, run: &str) {
        let runs = self.runs.entry(who).or_default();
        if !run.is_empty() && !runs.iter().any(|known| known == run) {
            runs.push(run.to_owned());
        }
    }

    /// Remembers which event scheduled which activity.
    pub(super) fn see_events(&mut self, who: Who, events: &[HistoryEvent]) {
        for event in events {
            if let Some(Attributes::ActivityTaskScheduledEventAttributes(scheduled)) = &event.attributes
                && let Some(activity) = activity_number(&scheduled.activity_id)
            {
                self.scheduled.insert((who, activity), event.event_id);
            }
        }
    }

    pub(super) fn status(&self, who: Who) -> Option<Status> {
        Some(self.states.get(&who)?.workflow_execution_info.as_ref()?.status())
    }

    pub(super) fn current_run(&self, who: Who) -> Option<&str> {
        let info = self.states.get(&who)?.workflow_execution_info.as_ref()?;
        Some(info.execution.as_ref()?.run_id.as_str())
    }

    /// The first run of a workflow whose last run has ended.
    pub(super) fn ended_chain(&self, who: Who) -> Option<String> {
        let info = self.states.get(&who)?.workflow_execution_info.as_ref()?;
        (info.status() != Status::Running).then(|| info.first_run_id.clone())
    }

    /// The run that started a workflow's current run as its child, if that has ended.
    pub(super) fn ended_parent(&self, child: Who) -> Option<String> {
        let info = self.states.get(&child)?.workflow_execution_info.as_ref()?;
        let parent = &info.parent_execution.as_ref()?.run_id;
        let is_parent =
            |who: &Who| self.current_run(*who) == Some(parent) && self.status(*who) == Some(Status::Running);
        (!Who::ALL.iter().any(is_parent)).then(|| parent.clone())
    }

    /// Whether a workflow task waits to be taken or has been taken; none is neither. What a closed run shows is only what
    /// it left behind.
    pub(super) fn task_state(&self, who: Who) -> Option<PendingWorkflowTaskState> {
        self.status(who).filter(|status| *status == Status::Running)?;
        Some(self.states.get(&who)?.pending_workflow_task.as_ref()?.state())
    }
}

/// The names of activities are `a` and a number.
pub(super) fn activity_number(id: &str) -> Option<u8> {
    id.strip_prefix('a')?.parse().ok()
}
