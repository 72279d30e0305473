//! Requests about task queues.

use std::sync::Arc;

use temporalio_protos::temporal::api::{
    enums::v1::{DescribeTaskQueueMode, TaskQueueType},
    taskqueue::v1::{
        PollerInfo, TaskQueuePartitionMetadata, TaskQueueStats, TaskQueueStatus, TaskQueueTypeInfo,
        TaskQueueVersionInfo,
    },
    workflowservice::v1::{
        DescribeTaskQueueRequest, DescribeTaskQueueResponse, ListTaskQueuePartitionsRequest,
        ListTaskQueuePartitionsResponse, ResetStickyTaskQueueRequest, ResetStickyTaskQueueResponse,
        ShutdownWorkerRequest, ShutdownWorkerResponse,
    },
};

use super::checks;
use crate::{
    core::{Core, Target},
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
        let key = |kind| QueueKey { namespace: request.namespace.as_str().into(), name: name.clone(), kind };
        if request.api_mode() == DescribeTaskQueueMode::Enhanced {
            let info = |kind| (kind as i32, self.queue_info(&key(kind_of(kind))));
            let types_info = [info(TaskQueueType::Workflow), info(TaskQueueType::Activity)].into();
            let unversioned = TaskQueueVersionInfo { types_info, ..TaskQueueVersionInfo::default() };
            return Ok(DescribeTaskQueueResponse {
                versions_info: [(String::new(), unversioned)].into(),
                ..DescribeTaskQueueResponse::default()
            });
        }
        let TaskQueueTypeInfo { pollers, stats } = self.queue_info(&key(kind_of(request.task_queue_type())));
        Ok(DescribeTaskQueueResponse {
            pollers,
            task_queue_status: request.include_task_queue_status.then(|| TaskQueueStatus {
                backlog_count_hint: stats.as_ref().map_or(0, |stats| stats.approximate_backlog_count),
                ..TaskQueueStatus::default()
            }),
            stats: if request.report_stats { stats } else { None },
            ..DescribeTaskQueueResponse::default()
        })
    }

    fn queue_info(&self, key: &QueueKey) -> TaskQueueTypeInfo {
        let pollers = self.queues.pollers(key, self.now() - LISTED).into_iter().map(|poller| PollerInfo {
            last_access_time: Some(timestamp(poller.last_seen)),
            identity: poller.identity,
            rate_per_second: 100_000.0,
            ..PollerInfo::default()
        });
        let stats = TaskQueueStats {
            approximate_backlog_count: i64::try_from(self.queues.backlog(key)).unwrap_or(i64::MAX),
            ..TaskQueueStats::default()
        };
        TaskQueueTypeInfo { pollers: pollers.collect(), stats: Some(stats) }
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
        };
        for task in self.queues.close(&key) {
            match task {
                Task::Workflow { run, .. } => {
                    let moved = self.with_run(&Target::of(&run), |run, _| Ok(run.unstick()));
                    if let Ok(Some(dispatch)) = moved.map(crate::core::Applied::value) {
                        self.dispatch(&run, dispatch);
                    }
                }
                Task::Query(query) => query.answer(crate::run::queries::QueryAnswer::AskDirectly),
                Task::Activity { .. } => {}
            }
        }
        Ok(ShutdownWorkerResponse::default())
    }
}

fn kind_of(kind: TaskQueueType) -> Kind {
    match kind {
        TaskQueueType::Activity => Kind::Activity,
        _ => Kind::Workflow,
    }
}
