//! What a run records of the workers that completed its tasks: reset points and search attributes.

use temporalio_protos::temporal::api::{
    common::v1::Payload, history::v1::WorkflowTaskCompletedEventAttributes, workflow::v1::ResetPointInfo,
};

use super::RunState;
use crate::deployments::Version;
use crate::time::{Nanos, timestamp};

const CHECKSUMS: &str = "BinaryChecksums";

impl RunState {
    /// Records the worker that completed a task. Returns whether search attributes have changed.
    #[allow(deprecated, reason = "older builds are identified by their checksum")]
    pub(super) fn remember_worker(
        &mut self,
        at: Nanos,
        completed_id: i64,
        completed: &WorkflowTaskCompletedEventAttributes,
        limit: usize,
    ) -> bool {
        let checksum = &completed.binary_checksum;
        let is_new = self.add_reset_point(at, completed_id, completed, limit);
        self.worker_deployment_name.clone_from(&completed.worker_deployment_name);
        self.most_recent_build.clone_from(&completed.worker_version);
        let used = completed.deployment_version.as_ref().map(Version::of_api);
        let mut changed = self.list_version(used.as_ref());
        if is_new && !checksum.is_empty() {
            let known = self.reset_points.iter().map(|point| point.binary_checksum.clone());
            let known: Vec<String> = known.filter(|checksum| !checksum.is_empty()).collect();
            changed |= self.set_attribute(CHECKSUMS, Some(keywords(&known)));
        }
        changed
    }

    /// Adds a reset point for the first completed task of each build. Returns whether it added one.
    #[allow(deprecated, reason = "older builds are identified by their checksum")]
    fn add_reset_point(
        &mut self,
        at: Nanos,
        completed_id: i64,
        completed: &WorkflowTaskCompletedEventAttributes,
        limit: usize,
    ) -> bool {
        let version = completed.deployment_version.as_ref().map(|version| &version.build_id);
        let stamp = completed.worker_version.as_ref().map(|version| &version.build_id);
        let build_id = version.or(stamp).cloned().unwrap_or_default();
        let checksum = &completed.binary_checksum;
        let known = |point: &ResetPointInfo| point.binary_checksum == *checksum && point.build_id == build_id;
        if self.reset_points.iter().any(known) {
            return false;
        }
        self.reset_points.push(ResetPointInfo {
            binary_checksum: checksum.clone(),
            build_id,
            run_id: self.run_id.clone(),
            first_workflow_task_completed_id: completed_id,
            create_time: Some(timestamp(at)),
            resettable: self.children.is_empty() && self.signals_out.is_empty() && self.cancels_out.is_empty(),
            ..ResetPointInfo::default()
        });
        if self.reset_points.len() > limit {
            self.reset_points.remove(0);
        }
        true
    }

    /// Sets or removes a search attribute without an event. Returns whether it changed.
    pub(super) fn set_attribute(&mut self, name: &str, value: Option<Payload>) -> bool {
        let mut attributes = self.search_attributes.take().unwrap_or_default();
        let before = match value.clone() {
            Some(value) => attributes.indexed_fields.insert(name.to_owned(), value),
            None => attributes.indexed_fields.remove(name),
        };
        self.search_attributes = (!attributes.indexed_fields.is_empty()).then_some(attributes);
        before != value
    }
}

pub(super) fn keyword(value: &str) -> Payload {
    payload("Keyword", &serde_json::json!(value))
}

pub(super) fn keywords(values: &[String]) -> Payload {
    payload("KeywordList", &serde_json::json!(values))
}

fn payload(kind: &str, value: &serde_json::Value) -> Payload {
    let metadata = [("encoding", "json/plain"), ("type", kind)];
    Payload {
        metadata: metadata.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).into(),
        data: value.to_string().into_bytes(),
        ..Payload::default()
    }
}
