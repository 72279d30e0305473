//! The build of a worker, as history and a description of the run show it.

use temporalio_protos::temporal::api::{
    command::v1::ScheduleActivityTaskCommandAttributes,
    common::v1::{ActivityType, RetryPolicy, WorkerVersionCapabilities, WorkerVersionStamp},
    history::v1::{HistoryEvent, history_event::Attributes},
    workflowservice::v1::{
        DescribeWorkflowExecutionRequest, GetSystemInfoRequest, PollActivityTaskQueueRequest,
        RespondActivityTaskCompletedRequest, RespondWorkflowTaskFailedRequest,
    },
};

use super::{BUILD, NAMESPACE, PATIENCE, Peer, execution, peers, stamp, starts::command};
use crate::{
    engine::client::{milliseconds, patient, queue},
    support::block_on,
};

/// SDKs send their build in `worker_version` only with this capability, and otherwise in the older `binary_checksum`.
#[test]
fn both_servers_report_build_id_based_versioning() {
    block_on(async {
        for peer in peers().await {
            let info = peer.stub.clone().get_system_info(GetSystemInfoRequest {}).await.unwrap().into_inner();
            assert!(info.capabilities.unwrap_or_default().build_id_based_versioning, "{}", peer.name);
        }
    });
}

#[test]
fn history_names_the_build_of_an_unversioned_worker() {
    block_on(async {
        let [real, engine] = peers().await;
        let expected = builds(&real).await;
        println!("{expected:#?}");
        assert_eq!(builds(&engine).await, expected);
    });
}

#[expect(deprecated, reason = "what older workers say is kept as well")]
async fn builds(peer: &Peer) -> Vec<String> {
    peer.start(peer.start_request("built")).await;
    let failed = RespondWorkflowTaskFailedRequest {
        namespace: NAMESPACE.to_owned(),
        task_token: peer.task("built").await.task_token,
        binary_checksum: "checksum".to_owned(),
        worker_version: stamp("build of the failed task"),
        ..RespondWorkflowTaskFailedRequest::default()
    };
    peer.stub.clone().respond_workflow_task_failed(failed).await.unwrap();

    let activity = |id: &str, timeout: u64| {
        command(
            ScheduleActivityTaskCommandAttributes {
                activity_id: id.to_owned(),
                activity_type: Some(ActivityType { name: "test".to_owned() }),
                task_queue: queue(&peer.id(id)),
                start_to_close_timeout: milliseconds(timeout),
                retry_policy: Some(RetryPolicy { maximum_attempts: 1, ..RetryPolicy::default() }),
                ..ScheduleActivityTaskCommandAttributes::default()
            }
            .into(),
        )
    };
    peer.decide(&peer.task("built").await, vec![activity("done", 60_000)], Vec::new()).await;
    let completed = RespondActivityTaskCompletedRequest {
        namespace: NAMESPACE.to_owned(),
        task_token: take(peer, "done").await,
        worker_version: stamp("build of the activity's worker"),
        ..RespondActivityTaskCompletedRequest::default()
    };
    peer.stub.clone().respond_activity_task_completed(completed).await.unwrap();
    peer.decide(&peer.task("built").await, vec![activity("lost", 200)], Vec::new()).await;
    take(peer, "lost").await;
    peer.decide(&peer.task("built").await, Vec::new(), Vec::new()).await;

    let mut seen: Vec<String> = peer.history("built").await.iter().filter_map(build).collect();
    let request =
        DescribeWorkflowExecutionRequest { namespace: NAMESPACE.to_owned(), execution: execution(&peer.id("built")) };
    let described = peer.stub.clone().describe_workflow_execution(request).await.unwrap().into_inner();
    let info = described.workflow_execution_info.unwrap_or_default();
    seen.push(format!("most recent: {:?}", info.most_recent_worker_version_stamp));
    for point in info.auto_reset_points.unwrap_or_default().points {
        let (build, checksum, event) = (point.build_id, point.binary_checksum, point.first_workflow_task_completed_id);
        seen.push(format!("reset point: {build:?}, {checksum:?}, event {event}"));
    }
    seen
}

/// Takes an activity as a worker of the build; returns its token.
#[expect(deprecated, reason = "unversioned workers still send their build here")]
async fn take(peer: &Peer, name: &str) -> Vec<u8> {
    let request = PollActivityTaskQueueRequest {
        namespace: NAMESPACE.to_owned(),
        task_queue: queue(&peer.id(name)),
        worker_version_capabilities: Some(WorkerVersionCapabilities {
            build_id: BUILD.to_owned(),
            ..WorkerVersionCapabilities::default()
        }),
        ..PollActivityTaskQueueRequest::default()
    };
    let task = peer.stub.clone().poll_activity_task_queue(patient(request, PATIENCE)).await.unwrap().into_inner();
    task.task_token
}

#[expect(deprecated, reason = "what older workers say is kept as well")]
fn build(event: &HistoryEvent) -> Option<String> {
    let shown = |kind: &str, stamp: &Option<WorkerVersionStamp>, checksum: &str| {
        let stamp = stamp.as_ref().map(|stamp| (stamp.build_id.clone(), stamp.use_versioning));
        Some(format!("{} {kind}: {stamp:?}, {checksum:?}", event.event_id))
    };
    match event.attributes.as_ref()? {
        Attributes::WorkflowTaskStartedEventAttributes(it) => shown("task started", &it.worker_version, ""),
        Attributes::WorkflowTaskFailedEventAttributes(it) => {
            shown("task failed", &it.worker_version, &it.binary_checksum)
        }
        Attributes::WorkflowTaskCompletedEventAttributes(it) => {
            shown("task completed", &it.worker_version, &it.binary_checksum)
        }
        Attributes::ActivityTaskStartedEventAttributes(it) => shown("activity started", &it.worker_version, ""),
        Attributes::ActivityTaskCompletedEventAttributes(it) => shown("activity completed", &it.worker_version, ""),
        _ => None,
    }
}
