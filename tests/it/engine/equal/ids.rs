//! What kind of UUID a run's id is. Some clients read the time of a start off a UUID of version 7.

use temporalio_protos::temporal::api::{
    command::v1::{
        ContinueAsNewWorkflowExecutionCommandAttributes, FailWorkflowExecutionCommandAttributes,
        StartChildWorkflowExecutionCommandAttributes,
    },
    common::v1::{RetryPolicy, WorkflowType},
    enums::v1::WorkflowIdConflictPolicy,
    failure::v1::Failure,
    workflowservice::v1::{
        PollWorkflowTaskQueueResponse, ResetWorkflowExecutionRequest, SignalWithStartWorkflowExecutionRequest,
        StartWorkflowExecutionRequest,
    },
};
use uuid::Uuid;

use super::{NAMESPACE, Peer, peers, starts::command};
use crate::{
    engine::client::{milliseconds, queue},
    support::block_on,
};

#[test]
fn run_ids_have_the_same_uuid_version_as_the_real_servers() {
    block_on(async {
        let [real, engine] = peers().await;
        let expected = versions(&real).await;
        println!("{expected:#?}");
        assert_eq!(versions(&engine).await, expected);
    });
}

async fn versions(peer: &Peer) -> Vec<(&'static str, usize)> {
    let version = |run_id: &str| Uuid::parse_str(run_id).unwrap().get_version_num();
    let of_task = |task: &PollWorkflowTaskQueueResponse| {
        version(&task.workflow_execution.as_ref().map(|execution| execution.run_id.clone()).unwrap_or_default())
    };
    let kind = Some(WorkflowType { name: "test".to_owned() });
    let mut seen = vec![("start", version(&peer.start(peer.start_request("chain")).await))];

    let continued = ContinueAsNewWorkflowExecutionCommandAttributes {
        workflow_type: kind.clone(),
        task_queue: queue(&peer.id("chain")),
        ..ContinueAsNewWorkflowExecutionCommandAttributes::default()
    };
    peer.decide(&peer.task("chain").await, vec![command(continued.into())], Vec::new()).await;
    let parent = peer.task("chain").await;
    seen.push(("continue as new", of_task(&parent)));

    let child = StartChildWorkflowExecutionCommandAttributes {
        workflow_id: peer.id("child"),
        workflow_type: kind.clone(),
        task_queue: queue(&peer.id("child")),
        ..StartChildWorkflowExecutionCommandAttributes::default()
    };
    peer.decide(&parent, vec![command(child.into())], Vec::new()).await;
    let child = peer.task("child").await;
    seen.push(("child", of_task(&child)));

    peer.decide(&child, Vec::new(), Vec::new()).await;
    let reset = ResetWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution: child.workflow_execution.clone(),
        workflow_task_finish_event_id: 4,
        request_id: "reset".to_owned(),
        ..ResetWorkflowExecutionRequest::default()
    };
    let reset = peer.stub.clone().reset_workflow_execution(reset).await.unwrap().into_inner();
    seen.push(("reset", version(&reset.run_id)));

    let retry_policy = Some(RetryPolicy { initial_interval: milliseconds(1), ..RetryPolicy::default() });
    let retried =
        |name| StartWorkflowExecutionRequest { retry_policy: retry_policy.clone(), ..peer.start_request(name) };
    peer.start(retried("retried")).await;
    let failed = FailWorkflowExecutionCommandAttributes { failure: Some(Failure::default()) };
    peer.decide(&peer.task("retried").await, vec![command(failed.into())], Vec::new()).await;
    seen.push(("retry after a failure", of_task(&peer.task("retried").await)));

    peer.start(StartWorkflowExecutionRequest { workflow_run_timeout: milliseconds(1000), ..retried("too slow") }).await;
    peer.task("too slow").await;
    seen.push(("retry after a timeout", of_task(&peer.task("too slow").await)));

    let replaces = StartWorkflowExecutionRequest {
        workflow_id_conflict_policy: WorkflowIdConflictPolicy::TerminateExisting as i32,
        ..peer.start_request("too slow")
    };
    seen.push(("start that replaces", version(&peer.start(replaces).await)));

    let signalled = SignalWithStartWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_id: peer.id("signalled"),
        workflow_type: kind,
        task_queue: queue(&peer.id("signalled")),
        request_id: "signal".to_owned(),
        signal_name: "go".to_owned(),
        ..SignalWithStartWorkflowExecutionRequest::default()
    };
    let signalled = peer.stub.clone().signal_with_start_workflow_execution(signalled).await.unwrap().into_inner();
    seen.push(("signal with start", version(&signalled.run_id)));

    let updated = peer.update_with_start(
        StartWorkflowExecutionRequest {
            workflow_id_conflict_policy: WorkflowIdConflictPolicy::Fail as i32,
            ..peer.start_request("updated")
        },
        "update",
    );
    tokio::select! {
        answer = updated => panic!("answered before a worker had it: {answer:?}"),
        task = peer.task("updated") => seen.push(("update with start", of_task(&task))),
    }
    seen
}
