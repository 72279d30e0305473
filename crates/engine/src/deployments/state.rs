//! What is stored of a deployment. Tags are never reused.

use std::collections::BTreeMap;

use temporalio_protos::temporal::api::{
    common::v1::Payload,
    enums::v1::{TaskQueueType, VersionDrainageStatus, WorkerDeploymentVersionStatus as Status},
};

use super::Version;
use crate::{queues::Kind, time::Nanos};

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Deployment {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int64, tag = "2")]
    pub(crate) create_time: Nanos,
    /// Who created it.
    #[prost(string, tag = "3")]
    pub(crate) create_request_id: String,
    /// Changes with every change of the routing or the manager.
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) conflict_token: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) last_modifier: String,
    #[prost(string, tag = "6")]
    pub(crate) manager: String,
    /// The build of the current version; empty for unversioned workers.
    #[prost(string, tag = "7")]
    pub(crate) current: String,
    #[prost(message, optional, tag = "8")]
    pub(crate) ramp: Option<Ramp>,
    #[prost(int64, tag = "9")]
    pub(crate) current_changed: Nanos,
    #[prost(int64, tag = "10")]
    pub(crate) ramping_changed: Nanos,
    #[prost(int64, tag = "11")]
    pub(crate) percentage_changed: Nanos,
    #[prost(int64, tag = "12")]
    pub(crate) revision: i64,
    /// By build id.
    #[prost(btree_map = "string, message", tag = "13")]
    pub(crate) versions: BTreeMap<String, VersionState>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Ramp {
    /// Empty for unversioned workers.
    #[prost(string, tag = "1")]
    pub(crate) build_id: String,
    #[prost(float, tag = "2")]
    pub(crate) percentage: f32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct VersionState {
    #[prost(int64, tag = "1")]
    pub(crate) create_time: Nanos,
    #[prost(enumeration = "Status", tag = "2")]
    pub(crate) status: i32,
    #[prost(string, tag = "3")]
    pub(crate) create_request_id: String,
    #[prost(int64, tag = "4")]
    pub(crate) current_since: Nanos,
    #[prost(int64, tag = "5")]
    pub(crate) ramping_since: Nanos,
    #[prost(int64, tag = "6")]
    pub(crate) routing_updated: Nanos,
    #[prost(int64, tag = "7")]
    pub(crate) first_activated: Nanos,
    #[prost(int64, tag = "8")]
    pub(crate) last_current: Nanos,
    #[prost(int64, tag = "9")]
    pub(crate) last_deactivated: Nanos,
    #[prost(message, optional, tag = "10")]
    pub(crate) drainage: Option<DrainageState>,
    /// What clients know of the version; `None` before the first entry.
    #[prost(message, optional, tag = "11")]
    pub(crate) metadata: Option<Metadata>,
    #[prost(string, tag = "12")]
    pub(crate) last_modifier: String,
    #[prost(message, repeated, tag = "13")]
    pub(crate) queues: Vec<VersionQueue>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct DrainageState {
    #[prost(enumeration = "VersionDrainageStatus", tag = "1")]
    pub(crate) status: i32,
    #[prost(int64, tag = "2")]
    pub(crate) changed: Nanos,
    #[prost(int64, tag = "3")]
    pub(crate) checked: Nanos,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Metadata {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) entries: BTreeMap<String, Payload>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct VersionQueue {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(enumeration = "TaskQueueType", tag = "2")]
    pub(crate) kind: i32,
}

impl Deployment {
    pub(crate) fn version(&self, build_id: &str) -> Option<Version> {
        (!build_id.is_empty()).then(|| Version::new(&self.name, build_id))
    }

    /// Every task queue of any version, once.
    pub(crate) fn queues(&self) -> Vec<(String, Kind)> {
        let mut queues: Vec<_> = self.versions.values().flat_map(VersionState::queues).collect();
        queues.sort();
        queues.dedup();
        queues
    }
}

impl VersionState {
    pub(crate) fn has_queue(&self, name: &str, kind: Kind) -> bool {
        self.queues.iter().any(|queue| queue.name == name && queue.kind == type_of(kind) as i32)
    }

    pub(crate) fn queues(&self) -> impl Iterator<Item = (String, Kind)> {
        self.queues.iter().map(|queue| (queue.name.clone(), kind_of(queue.kind())))
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.drainage.is_some_and(|drainage| drainage.status() == VersionDrainageStatus::Draining)
    }
}

pub(crate) fn type_of(kind: Kind) -> TaskQueueType {
    match kind {
        Kind::Workflow => TaskQueueType::Workflow,
        Kind::Activity => TaskQueueType::Activity,
        Kind::Nexus => TaskQueueType::Nexus,
    }
}

pub(crate) fn kind_of(kind: TaskQueueType) -> Kind {
    match kind {
        TaskQueueType::Activity => Kind::Activity,
        TaskQueueType::Nexus => Kind::Nexus,
        _ => Kind::Workflow,
    }
}
