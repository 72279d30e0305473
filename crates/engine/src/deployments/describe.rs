//! Deployments as clients see them.

#![allow(deprecated, reason = "clients still read the older fields")]

use std::collections::HashMap;

use temporalio_protos::temporal::api::{
    deployment::v1::{
        RoutingConfig, VersionDrainageInfo, VersionMetadata, WorkerDeploymentInfo, WorkerDeploymentVersionInfo,
        worker_deployment_info::WorkerDeploymentVersionSummary, worker_deployment_version_info::VersionTaskQueueInfo,
    },
    enums::v1::{RoutingConfigUpdateState, VersionDrainageStatus},
    taskqueue::v1::TaskQueueStats,
    workflowservice::v1::{
        describe_worker_deployment_version_response::VersionTaskQueue,
        list_worker_deployments_response::WorkerDeploymentSummary,
    },
};

use super::{
    Version,
    state::{Deployment, DrainageState, Metadata, VersionState, kind_of},
    version::dotted,
};
use crate::{
    queues::Kind,
    time::{optional_timestamp, timestamp},
};

/// The statistics of a task queue of a version, if they are asked for.
pub(crate) type Stats<'a> = &'a dyn Fn(&str, Kind) -> Option<TaskQueueStats>;

pub(crate) fn deployment_info(deployment: &Deployment) -> WorkerDeploymentInfo {
    let mut versions: Vec<_> = deployment.versions.iter().collect();
    versions.sort_by_key(|(_, version)| std::cmp::Reverse(version.create_time));
    let summaries = versions.into_iter().map(|(build_id, version)| {
        let status = version.drainage.map_or(0, |drainage| drainage.status);
        // Only here, and not in lists, the older field is set.
        WorkerDeploymentVersionSummary { drainage_status: status, ..version_summary(deployment, build_id, version) }
    });
    WorkerDeploymentInfo {
        name: deployment.name.clone(),
        version_summaries: summaries.collect(),
        create_time: Some(timestamp(deployment.create_time)),
        routing_config: Some(routing_config(deployment)),
        last_modifier_identity: deployment.last_modifier.clone(),
        manager_identity: deployment.manager.clone(),
        routing_config_update_state: RoutingConfigUpdateState::Completed as i32,
    }
}

pub(crate) fn summary(deployment: &Deployment) -> WorkerDeploymentSummary {
    let of = |build_id: &str| {
        let version = deployment.versions.get(build_id)?;
        Some(version_summary(deployment, build_id, version))
    };
    let latest = deployment.versions.iter().max_by_key(|(_, version)| version.create_time);
    WorkerDeploymentSummary {
        name: deployment.name.clone(),
        create_time: Some(timestamp(deployment.create_time)),
        routing_config: Some(routing_config(deployment)),
        latest_version_summary: latest.map(|(build_id, version)| version_summary(deployment, build_id, version)),
        current_version_summary: of(&deployment.current),
        ramping_version_summary: deployment.ramp.as_ref().and_then(|ramp| of(&ramp.build_id)),
    }
}

fn routing_config(deployment: &Deployment) -> RoutingConfig {
    let current = deployment.version(&deployment.current);
    let ramping = deployment.ramp.as_ref().and_then(|ramp| deployment.version(&ramp.build_id));
    RoutingConfig {
        current_version: dotted(current.as_ref()),
        current_deployment_version: current.map(|version| version.to_api()),
        ramping_version: deployment.ramp.as_ref().map(|_| dotted(ramping.as_ref())).unwrap_or_default(),
        ramping_deployment_version: ramping.map(|version| version.to_api()),
        ramping_version_percentage: deployment.ramp.as_ref().map_or(0.0, |ramp| ramp.percentage),
        current_version_changed_time: optional_timestamp(deployment.current_changed),
        ramping_version_changed_time: optional_timestamp(deployment.ramping_changed),
        ramping_version_percentage_changed_time: optional_timestamp(deployment.percentage_changed),
        revision_number: deployment.revision,
    }
}

fn version_summary(deployment: &Deployment, build_id: &str, version: &VersionState) -> WorkerDeploymentVersionSummary {
    let named = Version::new(&deployment.name, build_id);
    WorkerDeploymentVersionSummary {
        version: named.dotted(),
        status: version.status,
        deployment_version: Some(named.to_api()),
        create_time: Some(timestamp(version.create_time)),
        drainage_info: version.drainage.as_ref().map(drainage_info),
        current_since_time: optional_timestamp(version.current_since),
        ramping_since_time: optional_timestamp(version.ramping_since),
        routing_update_time: optional_timestamp(version.routing_updated),
        first_activation_time: optional_timestamp(version.first_activated),
        last_current_time: optional_timestamp(version.last_current),
        last_deactivation_time: optional_timestamp(version.last_deactivated),
        ..WorkerDeploymentVersionSummary::default()
    }
}

fn drainage_info(drainage: &DrainageState) -> VersionDrainageInfo {
    VersionDrainageInfo {
        status: drainage.status,
        last_changed_time: optional_timestamp(drainage.changed),
        last_checked_time: optional_timestamp(drainage.checked),
    }
}

pub(crate) fn version_info(
    deployment: &Deployment,
    build_id: &str,
    version: &VersionState,
) -> WorkerDeploymentVersionInfo {
    let named = Version::new(&deployment.name, build_id);
    let ramp = deployment.ramp.as_ref().filter(|ramp| ramp.build_id == build_id);
    let queues = version.queues.iter();
    let drainage = version.drainage.as_ref().filter(|it| it.status() != VersionDrainageStatus::Unspecified);
    WorkerDeploymentVersionInfo {
        version: named.dotted(),
        status: version.status,
        deployment_version: Some(named.to_api()),
        create_time: Some(timestamp(version.create_time)),
        routing_changed_time: optional_timestamp(version.routing_updated),
        current_since_time: optional_timestamp(version.current_since),
        ramping_since_time: optional_timestamp(version.ramping_since),
        ramp_percentage: ramp.map_or(0.0, |ramp| ramp.percentage),
        task_queue_infos: queues.map(|it| VersionTaskQueueInfo { name: it.name.clone(), r#type: it.kind }).collect(),
        drainage_info: drainage.map(drainage_info),
        metadata: version.metadata.as_ref().map(metadata),
        last_modifier_identity: version.last_modifier.clone(),
        ..WorkerDeploymentVersionInfo::default()
    }
}

pub(crate) fn metadata(metadata: &Metadata) -> VersionMetadata {
    VersionMetadata { entries: metadata.entries.clone().into_iter().collect() }
}

pub(crate) fn task_queues(version: &VersionState, stats: Stats<'_>) -> Vec<VersionTaskQueue> {
    let described = version.queues.iter().map(|queue| {
        let stats = stats(&queue.name, kind_of(queue.kind()));
        VersionTaskQueue {
            name: queue.name.clone(),
            r#type: queue.kind,
            stats,
            // The engine has one priority.
            stats_by_priority_key: stats.map(|stats| (3, stats)).into_iter().collect::<HashMap<_, _>>(),
        }
    });
    described.collect()
}
