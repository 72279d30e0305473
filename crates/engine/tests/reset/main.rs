//! Resets, as clients and workers see them.

#![allow(clippy::unwrap_used, reason = "tests")]

mod children;
mod client;
mod commands;
mod reapply;

use temporalio_protos::temporal::api::{
    enums::v1::{EventType as E, WorkflowExecutionStatus as Status, WorkflowTaskFailedCause},
    failure::v1::{Failure, ResetWorkflowFailureInfo, failure::FailureInfo},
    history::v1::{
        HistoryEvent, WorkflowExecutionTerminatedEventAttributes, WorkflowTaskFailedEventAttributes,
        WorkflowTaskStartedEventAttributes, history_event::Attributes,
    },
    workflow::v1::{PostResetOperation, post_reset_operation::Variant},
    workflowservice::v1::{
        DescribeWorkflowExecutionResponse, PollActivityTaskQueueRequest, PollActivityTaskQueueResponse,
        ResetWorkflowExecutionRequest, ResetWorkflowExecutionResponse,
    },
};
use tonic::Code;

use self::{
    client::{Client, NAMESPACE, execution, queue},
    commands::{activity, timer},
};

/// A run with two completed workflow tasks: events 4 and 10.
async fn decided_twice(client: &Client) -> String {
    let run_id = client.start("workflow").await;
    client.decide("workflows", vec![timer("t"), activity("a")]).await;
    client.signal("workflow", "hello").await;
    client.decide("workflows", vec![timer("u")]).await;
    run_id
}

fn attributes(events: &[HistoryEvent], id: usize) -> Option<Attributes> {
    events.get(id - 1).and_then(|event| event.attributes.clone())
}

fn failed_by_reset(scheduled_event_id: i64, started_event_id: i64, old: &str, new: &str) -> Option<Attributes> {
    Some(Attributes::WorkflowTaskFailedEventAttributes(WorkflowTaskFailedEventAttributes {
        scheduled_event_id,
        started_event_id,
        cause: WorkflowTaskFailedCause::ResetWorkflow as i32,
        failure: Some(Failure {
            message: "again".to_owned(),
            failure_info: Some(FailureInfo::ResetWorkflowFailureInfo(ResetWorkflowFailureInfo::default())),
            ..Failure::default()
        }),
        identity: "history-service".to_owned(),
        base_run_id: old.to_owned(),
        new_run_id: new.to_owned(),
        ..WorkflowTaskFailedEventAttributes::default()
    }))
}

#[tokio::test]
async fn a_reset_terminates_the_old_run_and_the_new_run_shares_its_history() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::open(directory.path()).await;
    let old = decided_twice(&client).await;

    let new = client.reset("workflow", "", 10).await.unwrap();

    let (before, after) = (client.history("workflow", &old).await, client.history("workflow", &new).await);
    assert_eq!(before[..9], after[..9]);
    assert_eq!(attributes(&after, 10), failed_by_reset(8, 9, &old, &new));
    let rest: Vec<E> = after[10..].iter().map(HistoryEvent::event_type).collect();
    assert_eq!(rest, [E::WorkflowTaskScheduled]);
    let terminated = WorkflowExecutionTerminatedEventAttributes {
        reason: "again".to_owned(),
        identity: "history-resetter".to_owned(),
        ..WorkflowExecutionTerminatedEventAttributes::default()
    };
    let end = Some(Attributes::WorkflowExecutionTerminatedEventAttributes(terminated));
    assert_eq!((before.len(), attributes(&before, 12)), (12, end));
    client.close().await;
}

#[tokio::test]
async fn old_and_new_run_name_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::open(directory.path()).await;
    let old = decided_twice(&client).await;

    let new = client.reset("workflow", &old, 10).await.unwrap();

    let about = |described: DescribeWorkflowExecutionResponse| {
        let info = described.workflow_execution_info.unwrap_or_default();
        let extended = described.workflow_extended_info.unwrap_or_default();
        let was_reset = extended.last_reset_time.is_some() && extended.last_reset_time == info.start_time;
        let own_start = extended.original_start_time == info.start_time;
        (info.status(), info.first_run_id, extended.reset_run_id, was_reset, own_start)
    };
    assert_eq!(
        [about(client.describe("workflow", &old).await), about(client.describe("workflow", "").await)],
        [(Status::Terminated, old.clone(), new, false, true), (Status::Running, old, String::new(), true, false),]
    );
    client.close().await;
}

#[tokio::test]
async fn the_new_run_continues_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::open(directory.path()).await;
    decided_twice(&client).await;
    let new = client.reset("workflow", "", 10).await.unwrap();
    let history = client.history("workflow", &new).await;
    client.close().await;

    let client = Client::open(directory.path()).await;
    assert_eq!(client.history("workflow", "").await, history);
    let request = PollActivityTaskQueueRequest {
        namespace: NAMESPACE.to_owned(),
        task_queue: queue("activities"),
        ..PollActivityTaskQueueRequest::default()
    };
    let task: PollActivityTaskQueueResponse = client.call("PollActivityTaskQueue", &request).await.unwrap();
    assert_eq!((task.workflow_execution, task.attempt), (execution("workflow", &new), 1));
    assert_eq!(client.decide("workflows", vec![commands::complete()]).await, new);
    let status = client.describe("workflow", "").await.workflow_execution_info.unwrap_or_default().status();
    assert_eq!(status, Status::Completed);
    client.close().await;
}

#[tokio::test]
async fn a_reset_starts_a_scheduled_task_before_failing_it() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::open(directory.path()).await;
    let old = decided_twice(&client).await;

    let new = client.reset("workflow", "", 3).await.unwrap();

    let history = client.history("workflow", &new).await;
    let Some(Attributes::WorkflowTaskStartedEventAttributes(started)) = attributes(&history, 3) else {
        panic!("a task was started");
    };
    let expected = WorkflowTaskStartedEventAttributes {
        scheduled_event_id: 2,
        identity: "history-service".to_owned(),
        request_id: "emptyUuid".to_owned(),
        history_size_bytes: started.history_size_bytes,
        ..WorkflowTaskStartedEventAttributes::default()
    };
    assert_eq!((started, attributes(&history, 4)), (expected, failed_by_reset(2, 3, &old, &new)));
    client.close().await;
}

#[tokio::test]
async fn a_reset_run_can_be_reset_and_a_closed_one_too() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::open(directory.path()).await;
    let first = decided_twice(&client).await;
    let second = client.reset("workflow", "", 10).await.unwrap();

    let third = client.reset("workflow", &second, 4).await.unwrap();
    let fourth = client.reset("workflow", &first, 10).await.unwrap();

    let shared = [E::WorkflowExecutionStarted, E::WorkflowTaskScheduled, E::WorkflowTaskStarted, E::WorkflowTaskFailed];
    let kinds = client.kinds("workflow", &third).await;
    assert_eq!(kinds[..4], shared);
    assert_eq!(kinds.last(), Some(&E::WorkflowExecutionTerminated));
    let links = [&first, &second, &third, &fourth].map(|run_id| client.extended("workflow", run_id));
    let links = futures_util::future::join_all(links).await;
    let links: Vec<String> = links.into_iter().map(|info| info.reset_run_id).collect();
    assert_eq!(links, [fourth, third, String::new(), String::new()]);
    client.close().await;
}

#[tokio::test]
async fn a_reset_with_the_request_id_of_the_current_run_makes_no_new_run() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::open(directory.path()).await;
    let old = decided_twice(&client).await;
    let request = ResetWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution: execution("workflow", ""),
        workflow_task_finish_event_id: 10,
        request_id: "start".to_owned(),
        ..ResetWorkflowExecutionRequest::default()
    };

    let response: ResetWorkflowExecutionResponse = client.call("ResetWorkflowExecution", &request).await.unwrap();

    assert_eq!(response.run_id, old);
    client.close().await;
}

#[tokio::test]
async fn invalid_resets_are_rejected_with_the_servers_texts() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::open(directory.path()).await;
    let old = decided_twice(&client).await;
    let before = client.history("workflow", &old).await;
    let (at, boundary) = (
        |finish_id: i64| ResetWorkflowExecutionRequest {
            workflow_execution: execution("workflow", ""),
            workflow_task_finish_event_id: finish_id,
            ..ResetWorkflowExecutionRequest::default()
        },
        |id: i64| {
            format!(
                "StateRebuilder unable to Rebuild mutable state to event ID: {id}, version: 0, this event must be at \
                 the boundary"
            )
        },
    );
    let range = "Workflow task finish ID must be > 1 && <= workflow last event ID.".to_owned();
    let operation = PostResetOperation { variant: Some(Variant::SignalWorkflow(Default::default())) };
    let cases = [
        (at(1), Code::InvalidArgument, range.clone()),
        (at(12), Code::InvalidArgument, range),
        (at(2), Code::InvalidArgument, boundary(1)),
        (at(5), Code::InvalidArgument, boundary(4)),
        (
            at(7),
            Code::InvalidArgument,
            "Can only reset workflow to event ID in range [WorkflowTaskScheduled +1, WorkflowTaskStarted + 1]: 7"
                .to_owned(),
        ),
        (
            ResetWorkflowExecutionRequest { workflow_execution: None, ..at(4) },
            Code::InvalidArgument,
            "Execution is not set on request.".to_owned(),
        ),
        (
            ResetWorkflowExecutionRequest { workflow_execution: execution("unknown", ""), ..at(4) },
            Code::NotFound,
            "workflow not found for ID: unknown".to_owned(),
        ),
        (
            ResetWorkflowExecutionRequest { post_reset_operations: vec![operation], ..at(4) },
            Code::InvalidArgument,
            "unsupported post reset operation: *workflow.PostResetOperation_SignalWorkflow_".to_owned(),
        ),
    ];

    for (request, code, message) in cases {
        let refused = client.reset_with(request).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (code, message.as_str()));
    }
    assert_eq!(client.history("workflow", "").await, before);
    client.close().await;
}
