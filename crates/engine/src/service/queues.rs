//! Requests about task queues.

use std::sync::Arc;

use temporalio_protos::temporal::api::{
    enums::v1::{DescribeTaskQueueMode, TaskQueueType},
    taskqueue::v1::{
        PollerInfo, TaskQueuePartitionMetadata, TaskQueueStats, TaskQueueStatus, TaskQueueTypeInfo,
        TaskQueueVersionInfo, TaskQueueVersioningInfo,
    },
    workflowservice::v1::{
        DescribeTaskQueueRequest, DescribeTaskQueueResponse, ListTaskQueuePartitionsRequest,
        ListTaskQueuePartitionsResponse, ResetStickyTaskQueueRequest, ResetStickyTaskQueueResponse,
        ShutdownWorkerRequest, ShutdownWorkerResponse,
    },
};

use super::checks;
use crate::{
    core::Core,
    deployments::{QueueRouting, Version, dotted, state::kind_of},
    queues::{Kind, QueueKey, Task},
    service_error::ServiceError,
    time::{Nanos, SECOND, timestamp},
};

/// How long a poller is listed after its last poll.
const LISTED: Nanos = 5 * 60 * SECOND;

impl Core {
    #[allow(deprecated, reason = "tools still read the older response fields")]
    pub(super) async fn describe_queue(
        self: &Arc<Self>,
        request: DescribeTaskQueueRequest,
    ) -> Result<DescribeTaskQueueResponse, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        let name = checks::queue(request.task_queue.as_ref(), &self.limits)?;
        let key =
            |kind| QueueKey { namespace: request.namespace.as_str().into(), name: name.clone(), kind, version: None };
        let versioning = |kind| {
            let routing = self.deployments.routing(&request.namespace, &name, kind);
            routing.map(|routing| versioning_info(&routing))
        };
        if request.api_mode() == DescribeTaskQueueMode::Enhanced {
            let info = |kind| (kind as i32, self.queue_info(&key(kind_of(kind)), vec![None]));
            let types_info = [info(TaskQueueType::Workflow), info(TaskQueueType::Activity)].into();
            let unversioned = TaskQueueVersionInfo { types_info, ..TaskQueueVersionInfo::default() };
            return Ok(DescribeTaskQueueResponse {
                versions_info: [(String::new(), unversioned)].into(),
                versioning_info: versioning(Kind::Workflow),
                ..DescribeTaskQueueResponse::default()
            });
        }
        let kind = kind_of(request.task_queue_type());
        let mut versions = self.queues.versions(&key(kind));
        versions.sort();
        let TaskQueueTypeInfo { pollers, stats } = self.queue_info(&key(kind), versions);
        Ok(DescribeTaskQueueResponse {
            pollers,
            task_queue_status: request.include_task_queue_status.then(|| TaskQueueStatus {
                backlog_count_hint: stats.as_ref().map_or(0, |stats| stats.approximate_backlog_count),
                ..TaskQueueStatus::default()
            }),
            stats: if request.report_stats { stats } else { None },
            versioning_info: versioning(kind),
            ..DescribeTaskQueueResponse::default()
        })
    }

    /// The pollers and the backlog of a task queue, of these versions.
    fn queue_info(&self, key: &QueueKey, versions: Vec<Option<Version>>) -> TaskQueueTypeInfo {
        let (mut pollers, mut backlog) = (Vec::new(), 0);
        for version in versions {
            let key = QueueKey { version, ..key.clone() };
            let seen = self.queues.pollers(&key, self.now() - LISTED).into_iter().map(|poller| PollerInfo {
                last_access_time: Some(timestamp(poller.last_seen)),
                identity: poller.identity,
                rate_per_second: 100_000.0,
                deployment_options: poller.options,
                ..PollerInfo::default()
            });
            pollers.extend(seen);
            backlog += self.queue_stats(&key).approximate_backlog_count;
        }
        let stats = TaskQueueStats { approximate_backlog_count: backlog, ..TaskQueueStats::default() };
        TaskQueueTypeInfo { pollers, stats: Some(stats) }
    }

    pub(super) fn queue_stats(&self, key: &QueueKey) -> TaskQueueStats {
        TaskQueueStats {
            approximate_backlog_count: i64::try_from(self.queues.backlog(key)).unwrap_or(i64::MAX),
            ..TaskQueueStats::default()
        }
    }

    pub(super) async fn queue_partitions(
        self: &Arc<Self>,
        request: ListTaskQueuePartitionsRequest,
    ) -> Result<ListTaskQueuePartitionsResponse, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        let key = checks::queue(request.task_queue.as_ref(), &self.limits)?;
        let partition = TaskQueuePartitionMetadata { key, ..TaskQueuePartitionMetadata::default() };
        Ok(ListTaskQueuePartitionsResponse {
            activity_task_queue_partitions: vec![partition.clone()],
            workflow_task_queue_partitions: vec![partition],
        })
    }

    /// A worker has evicted a run from its cache.
    pub(super) async fn reset_sticky_queue(
        self: &Arc<Self>,
        request: ResetStickyTaskQueueRequest,
    ) -> Result<ResetStickyTaskQueueResponse, ServiceError> {
        let target = checks::target(&self.read_namespaces(), &request.namespace, request.execution)?;
        self.with_run(&target, |run, _| {
            run.must_run()?;
            run.memory.sticky = None;
            Ok(())
        })?
        .value();
        Ok(ResetStickyTaskQueueResponse {})
    }

    /// A worker shuts down: tasks in its sticky queue move to the normal queue.
    pub(super) async fn shutdown_worker(
        self: &Arc<Self>,
        request: ShutdownWorkerRequest,
    ) -> Result<ShutdownWorkerResponse, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        let key = QueueKey {
            namespace: request.namespace.as_str().into(),
            name: request.sticky_task_queue,
            kind: Kind::Workflow,
            version: None,
        };
        for task in self.queues.close(&key) {
            match task {
                Task::Workflow { run, .. } => self.unstick(&run),
                Task::Query(query) => query.answer(crate::run::queries::QueryAnswer::AskDirectly),
                Task::Activity { .. } | Task::Nexus { .. } => {}
            }
        }
        Ok(ShutdownWorkerResponse::default())
    }
}

#[allow(deprecated, reason = "clients still read the older fields")]
fn versioning_info(routing: &QueueRouting) -> TaskQueueVersioningInfo {
    let ramping = routing.ramping.as_ref();
    TaskQueueVersioningInfo {
        current_deployment_version: routing.current.as_ref().map(Version::to_api),
        current_version: dotted(routing.current.as_ref()),
        ramping_deployment_version: ramping.map(Version::to_api),
        ramping_version: if routing.is_ramping { dotted(ramping) } else { String::new() },
        ramping_version_percentage: routing.percentage,
        update_time: Some(timestamp(routing.updated)),
    }
}
