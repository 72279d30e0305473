//! Resets of parents and children.

use temporalio_protos::temporal::api::{
    enums::v1::{EventType as E, ResetReapplyExcludeType as Exclude, WorkflowExecutionStatus as Status},
    history::v1::history_event::Attributes,
    workflowservice::v1::{ResetWorkflowExecutionRequest, RespondWorkflowTaskCompletedRequest},
};

use crate::{
    client::{Client, execution},
    commands::{child, complete, timer},
};

fn plain() -> RespondWorkflowTaskCompletedRequest {
    RespondWorkflowTaskCompletedRequest::default()
}

#[tokio::test]
async fn a_child_survives_a_reset_and_reports_to_the_new_run() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::open(directory.path()).await;
    let old = client.start("parent").await;
    client.decide("workflows", vec![child("child")]).await;
    client.decide("workflows", vec![timer("t")]).await;

    let new = client.reset("parent", "", 9).await.unwrap();

    let held = client.take_task("workflows").await;
    client.decide("children", vec![complete()]).await;
    client.complete(&held, vec![], plain()).await;
    assert_eq!(client.decide("workflows", vec![]).await, new);
    let kinds = client.kinds("parent", &new).await;
    assert_eq!(
        kinds[9..14],
        [
            E::WorkflowTaskScheduled,
            E::WorkflowTaskStarted,
            E::WorkflowTaskCompleted,
            E::ChildWorkflowExecutionCompleted,
            E::WorkflowTaskScheduled,
        ]
    );
    assert_eq!(client.kinds("parent", &old).await.last(), Some(&E::WorkflowExecutionTerminated));
    client.close().await;
}

#[tokio::test]
#[allow(deprecated, reason = "everything is everything")]
async fn a_child_that_had_been_started_later_is_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::open(directory.path()).await;
    client.start("parent").await;
    let task = client.take_task("workflows").await;
    let inline = RespondWorkflowTaskCompletedRequest {
        force_create_new_workflow_task: true,
        return_new_workflow_task: true,
        ..RespondWorkflowTaskCompletedRequest::default()
    };
    let answer = client.complete(&task, vec![child("child")], inline).await;
    let in_child = client.take_task("children").await;
    // The child's started event is buffered until this task is completed, and then not part of the reset run.
    client.complete(&answer.workflow_task.unwrap_or_default(), vec![], plain()).await;
    let everything = [Exclude::Signal, Exclude::Update, Exclude::Nexus, Exclude::CancelRequest];

    let new = client.reset_with(ResetWorkflowExecutionRequest {
        workflow_execution: execution("parent", ""),
        workflow_task_finish_event_id: 8,
        reset_reapply_exclude_types: everything.map(|kind| kind as i32).into(),
        ..ResetWorkflowExecutionRequest::default()
    });

    let new = new.await.unwrap();
    let started = client.wait_for("parent", &new, E::ChildWorkflowExecutionStarted).await;
    let Some(Attributes::ChildWorkflowExecutionStartedEventAttributes(started)) = started.attributes else {
        panic!("a child has started");
    };
    assert_eq!(started.workflow_execution, in_child.workflow_execution);
    client.complete(&in_child, vec![complete()], plain()).await;
    client.wait_for("parent", &new, E::ChildWorkflowExecutionCompleted).await;
    client.close().await;
}

#[tokio::test]
async fn a_parent_gets_the_result_of_the_run_that_a_reset_made() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::open(directory.path()).await;
    client.start("parent").await;
    client.decide("workflows", vec![child("child")]).await;
    client.decide("workflows", vec![]).await;
    client.decide("children", vec![timer("t")]).await;

    let new = client.reset("child", "", 4).await.unwrap();

    assert_eq!(client.decide("children", vec![complete()]).await, new);
    client.decide("workflows", vec![complete()]).await;
    let parent = client.describe("parent", "").await.workflow_execution_info.unwrap_or_default();
    let kinds = client.kinds("parent", "").await;
    let ends: Vec<_> = kinds
        .into_iter()
        .filter(|kind| matches!(kind, E::ChildWorkflowExecutionTerminated | E::ChildWorkflowExecutionCompleted))
        .collect();
    assert_eq!((parent.status(), ends), (Status::Completed, vec![E::ChildWorkflowExecutionCompleted]));
    client.close().await;
}
