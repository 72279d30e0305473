//! Workflow tasks that fail again and again are told of in a search attribute, so that such runs can be found.

use temporalio_protos::temporal::api::enums::v1::WorkflowTaskFailedCause;

use super::{RunState, builds::keywords, commands::cause_name};

const PROBLEMS: &str = "TemporalReportedProblems";

/// So many failures in a row are told of.
const MANY: i32 = 5;

pub(super) fn failed(cause: WorkflowTaskFailedCause) -> Vec<String> {
    let cause = format!("cause=WorkflowTaskFailedCause{}", cause_name(cause));
    vec!["category=WorkflowTaskFailed".to_owned(), cause]
}

pub(super) fn timed_out() -> Vec<String> {
    let cause = "cause=WorkflowTaskTimedOutCauseStartToClose";
    vec!["category=WorkflowTaskTimedOut".to_owned(), cause.to_owned()]
}

impl RunState {
    /// Returns whether there is something new to tell.
    pub(super) fn report_task_problem(&mut self) -> bool {
        let worth_telling = self.task_failures >= MANY && !self.task_problem.is_empty();
        worth_telling && self.set_attribute(PROBLEMS, Some(keywords(&self.task_problem)))
    }

    /// A task was completed. Returns whether a problem was told of before.
    pub(super) fn task_has_no_problem(&mut self) -> bool {
        let was_told = self.set_attribute(PROBLEMS, None);
        if was_told {
            self.task_problem.clear();
        }
        was_told
    }
}
