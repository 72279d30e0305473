//! What lists show of a run whose workflow task fails again and again, until a worker gets it done.

use temporalio_protos::temporal::api::{common::v1::Payload, enums::v1::WorkflowTaskFailedCause};

use super::{Run, commands::cause_name};

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
        let problem = payload(&self.state.task_problem);
        let shown = &mut self.state.search_attributes.get_or_insert_default().indexed_fields;
        if shown.get(ATTRIBUTE) != Some(&problem) {
            shown.insert(ATTRIBUTE.to_owned(), problem);
            self.changes.listing = true;
        }
    }

    /// A worker got a task done.
    pub(super) fn forget_failed_tasks(&mut self) {
        self.state.task_failures = 0;
        self.state.task_problem = Vec::new();
        let Some(attributes) = &mut self.state.search_attributes else { return };
        if attributes.indexed_fields.remove(ATTRIBUTE).is_some() {
            self.changes.listing = true;
        }
        if attributes.indexed_fields.is_empty() {
            self.state.search_attributes = None;
        }
    }
}

fn payload(problem: &[String]) -> Payload {
    Payload {
        metadata: [("encoding", "json/plain"), ("type", "KeywordList")]
            .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
            .into(),
        data: serde_json::Value::from(problem).to_string().into_bytes(),
        ..Payload::default()
    }
}
