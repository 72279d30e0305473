//! The search attribute `TemporalReportedProblems` of a run whose workflow task keeps failing.

use temporalio_protos::temporal::api::enums::v1::WorkflowTaskFailedCause;

use super::{Run, builds::keywords, commands::cause_name};

const ATTRIBUTE: &str = "TemporalReportedProblems";

/// Consecutive failures from which on the attribute is set.
const SHOWN_FROM: i32 = 5;

impl Run {
    /// Records the cause of a failure that is in history. Failed retries are not in history and do not change the
    /// cause.
    pub(super) fn note_failure(&mut self, cause: WorkflowTaskFailedCause) {
        let cause = cause_name(cause);
        self.state.task_problem =
            vec!["category=WorkflowTaskFailed".to_owned(), format!("cause=WorkflowTaskFailedCause{cause}")];
    }

    /// As [`note_failure`](Self::note_failure), for a timeout.
    pub(super) fn note_timeout(&mut self) {
        let problem = ["category=WorkflowTaskTimedOut", "cause=WorkflowTaskTimedOutCauseStartToClose"];
        self.state.task_problem = problem.map(str::to_owned).into();
    }

    /// Counts a failed task that is not first retried on the normal queue.
    pub(super) fn count_failed_task(&mut self) {
        self.state.task_failures += 1;
        if self.state.task_failures < SHOWN_FROM {
            return;
        }
        let problem = keywords(&self.state.task_problem);
        self.changes.listing |= self.state.set_attribute(ATTRIBUTE, Some(problem));
    }

    /// A task was completed: clears the failures.
    pub(super) fn forget_failed_tasks(&mut self) {
        self.state.task_failures = 0;
        self.state.task_problem = Vec::new();
        self.changes.listing |= self.state.set_attribute(ATTRIBUTE, None);
    }
}
