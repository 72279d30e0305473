//! The names a script makes up, and small parts of messages made of them.

use std::collections::HashMap;

use prost_wkt_types::Duration;
use temporalio_protos::temporal::api::{
    common::v1::{
        ActivityType, Header, Memo, Payload, Payloads, Priority, RetryPolicy, SearchAttributes, WorkflowExecution,
        WorkflowType,
    },
    enums::v1::TaskQueueKind,
    failure::v1::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    taskqueue::v1::TaskQueue,
};

use super::Player;
use crate::diff::script::{Run, Who};

pub(super) const CLIENT: &str = "client";
pub(super) const WORKER: &str = "worker";

/// The type of every activity.
pub(super) const ACTIVITY_TYPE: &str = "Activity";

/// A search attribute that every server of these tests knows.
pub(super) const ATTRIBUTE: &str = windlass_workflows::attributes::NAMES[0];

impl Player {
    pub(super) fn id(&self, who: Who) -> String {
        format!("{}{}", self.prefix, who.name())
    }

    pub(super) fn queue(&self, who: Who) -> TaskQueue {
        queue(format!("{}{}-queue", self.prefix, who.name()))
    }

    pub(super) fn sticky_queue(&self, who: Who) -> TaskQueue {
        TaskQueue {
            name: format!("{}{}-sticky", self.prefix, who.name()),
            kind: TaskQueueKind::Sticky as i32,
            normal_name: self.queue(who).name,
        }
    }

    /// One queue per activity: two on one queue would come in any order.
    pub(super) fn activity_queue(&self, who: Who, activity: u8) -> TaskQueue {
        queue(format!("{}{}-a{activity}", self.prefix, who.name()))
    }

    pub(super) fn execution(&self, who: Who, run: Run) -> WorkflowExecution {
        WorkflowExecution { workflow_id: self.id(who), run_id: self.run_id(who, run) }
    }

    pub(super) fn run_id(&self, who: Who, run: Run) -> String {
        let runs = self.memory.runs.get(&who).map(Vec::as_slice).unwrap_or_default();
        match run {
            Run::Current => String::new(),
            Run::First => runs.first().cloned().unwrap_or_default(),
            Run::Latest => runs.last().cloned().unwrap_or_default(),
            Run::Unknown => "00000000-0000-4000-8000-000000000000".to_owned(),
            Run::Malformed => "malformed".to_owned(),
        }
    }
}

pub(super) fn queue(name: String) -> TaskQueue {
    TaskQueue { name, kind: TaskQueueKind::Normal as i32, ..Default::default() }
}

pub(super) fn workflow_type(name: &str) -> WorkflowType {
    WorkflowType { name: name.to_owned() }
}

pub(super) fn activity_type(name: &str) -> ActivityType {
    ActivityType { name: name.to_owned() }
}

pub(super) fn payload(text: &str) -> Payload {
    let metadata = HashMap::from([("encoding".to_owned(), b"json/plain".to_vec())]);
    Payload { metadata, data: serde_json::json!(text).to_string().into_bytes(), ..Default::default() }
}

pub(super) fn null_payload() -> Payload {
    let metadata = HashMap::from([("encoding".to_owned(), b"binary/null".to_vec())]);
    Payload { metadata, ..Default::default() }
}

pub(super) fn number_payload(number: i64) -> Payload {
    Payload { data: number.to_string().into_bytes(), ..payload("") }
}

pub(super) fn payloads(text: &str) -> Payloads {
    Payloads { payloads: vec![payload(text)] }
}

pub(super) fn header() -> Header {
    Header { fields: HashMap::from([("tracing".to_owned(), payload("header"))]) }
}

pub(super) fn memo(text: &str) -> Memo {
    Memo { fields: HashMap::from([("note".to_owned(), payload(text))]) }
}

pub(super) fn attributes(name: &str, value: Payload) -> SearchAttributes {
    SearchAttributes { indexed_fields: HashMap::from([(name.to_owned(), value)]) }
}

pub(super) fn priority() -> Priority {
    Priority { priority_key: 2, ..Default::default() }
}

pub(super) fn seconds(seconds: i64) -> Duration {
    Duration { seconds, nanos: 0 }
}

pub(super) fn millis(millis: i32) -> Duration {
    Duration { seconds: 0, nanos: millis * 1_000_000 }
}

/// Attempts ten milliseconds apart.
pub(super) fn retry(attempts: i32, fatal: &[&str]) -> RetryPolicy {
    RetryPolicy {
        initial_interval: Some(millis(10)),
        backoff_coefficient: 1.0,
        maximum_attempts: attempts,
        non_retryable_error_types: fatal.iter().map(|kind| (*kind).to_owned()).collect(),
        ..Default::default()
    }
}

pub(super) fn failure(kind: &str, fatal: bool) -> Failure {
    let info = ApplicationFailureInfo { r#type: kind.to_owned(), non_retryable: fatal, ..Default::default() };
    Failure {
        message: format!("a failure of type {kind}"),
        failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
        ..Default::default()
    }
}
