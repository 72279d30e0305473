//! What lists show of a run whose workflow task fails again and again, until a worker gets it done.

use temporalio_protos::temporal::api::enums::v1::WorkflowTaskFailedCause;

use super::{Run, builds::keywords, commands::cause_name};

const ATTRIBUTE: &str = "TemporalReportedProblems";

/// Failures in a row from which on they are shown.
const SHOWN_FROM: i32 = 5;

impl Run {
    /// History says that a task failed. Repeats that fail too leave no trace there, and the cause stays this one.
    pub(super) fn note_failure(&mut self, cause: WorkflowTaskFailedCause) {
        let cause = cause_name(cause);
        self.state.task_problem =
            vec!["category=WorkflowTaskFailed".to_owned(), format!("cause=WorkflowTaskFailedCause{cause}")];
    }

    /// As [`note_failure`](Self::note_failure), of a task that was not done in time.
    pub(super) fn note_timeout(&mut self) {
        let problem = ["category=WorkflowTaskTimedOut", "cause=WorkflowTaskTimedOutCauseStartToClose"];
        self.state.task_problem = problem.map(str::to_owned).into();
    }

    /// A task has failed that is not to be given to another worker first.
    pub(super) fn count_failed_task(&mut self) {
        self.state.task_failures += 1;
        if self.state.task_failures < SHOWN_FROM {
            return;
        }
        let problem = keywords(&self.state.task_problem);
        self.changes.listing |= self.state.set_attribute(ATTRIBUTE, Some(problem));
    }

    /// A worker got a task done.
    pub(super) fn forget_failed_tasks(&mut self) {
        self.state.task_failures = 0;
        self.state.task_problem = Vec::new();
        self.changes.listing |= self.state.set_attribute(ATTRIBUTE, None);
    }
}
