//! Events after the reset event, reapplied to the new run.

use temporalio_protos::temporal::api::{
    enums::v1::{
        EventType as E, ResetReapplyExcludeType, ResetReapplyType, UpdateAdmittedEventOrigin,
        UpdateWorkflowExecutionLifecycleStage,
    },
    history::v1::{
        HistoryEvent, WorkflowExecutionUpdateAcceptedEventAttributes, WorkflowExecutionUpdateAdmittedEventAttributes,
        history_event::Attributes,
    },
    update::v1::{Input, Meta, Request, WaitPolicy},
    workflowservice::v1::{
        ResetWorkflowExecutionRequest, RespondWorkflowTaskCompletedRequest, UpdateWorkflowExecutionRequest,
        UpdateWorkflowExecutionResponse,
    },
};

use crate::{
    client::{Client, NAMESPACE, execution},
    commands::{accept, continue_as_new, timer},
};

fn signals(history: &[HistoryEvent]) -> Vec<&str> {
    history.iter().filter_map(signal_name).collect()
}

fn signal_name(event: &HistoryEvent) -> Option<&str> {
    match &event.attributes {
        Some(Attributes::WorkflowExecutionSignaledEventAttributes(signal)) => Some(&signal.signal_name),
        _ => None,
    }
}

#[tokio::test]
async fn a_reset_reapplies_signals_also_of_later_runs_of_the_chain() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::open(directory.path()).await;
    let first = client.start("workflow").await;
    client.decide("workflows", vec![timer("t")]).await;
    client.signal("workflow", "to the first").await;
    client.decide("workflows", vec![continue_as_new()]).await;
    let held = client.take_task("workflows").await;
    // A workflow task is started, so this signal is buffered until the run closes.
    client.signal("workflow", "to the second").await;

    let new = client.reset("workflow", &first, 4).await.unwrap();

    let history = client.history("workflow", &new).await;
    assert_eq!(signals(&history), ["to the first", "to the second"]);
    let second = held.workflow_execution.unwrap_or_default().run_id;
    let kinds = client.kinds("workflow", &second).await;
    assert_eq!(
        kinds[2..],
        [E::WorkflowTaskStarted, E::WorkflowTaskFailed, E::WorkflowExecutionSignaled, E::WorkflowExecutionTerminated]
    );
    client.close().await;
}

#[tokio::test]
#[allow(deprecated, reason = "clients may still use the deprecated field")]
async fn signals_can_be_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::open(directory.path()).await;
    let run_id = client.start("workflow").await;
    client.decide("workflows", vec![timer("t")]).await;
    client.signal("workflow", "later").await;
    let reset = ResetWorkflowExecutionRequest {
        workflow_execution: execution("workflow", &run_id),
        workflow_task_finish_event_id: 4,
        ..ResetWorkflowExecutionRequest::default()
    };
    let ways = [
        reset.clone(),
        ResetWorkflowExecutionRequest { reset_reapply_type: ResetReapplyType::Signal as i32, ..reset.clone() },
        ResetWorkflowExecutionRequest { reset_reapply_type: ResetReapplyType::None as i32, ..reset.clone() },
        ResetWorkflowExecutionRequest {
            reset_reapply_exclude_types: vec![ResetReapplyExcludeType::Signal as i32],
            ..reset
        },
    ];

    let mut seen = Vec::new();
    for way in ways {
        let new = client.reset_with(way).await.unwrap();
        seen.push(signals(&client.history("workflow", &new).await).len());
    }

    assert_eq!(seen, [1, 1, 0, 0]);
    client.close().await;
}

#[tokio::test]
async fn a_reset_reapplies_an_update_and_the_new_run_accepts_it() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::open(directory.path()).await;
    let run_id = client.start("workflow").await;
    client.decide("workflows", vec![timer("t")]).await;
    let request = Request {
        meta: Some(Meta { update_id: "u".to_owned(), ..Meta::default() }),
        input: Some(Input { name: "change".to_owned(), ..Input::default() }),
        ..Request::default()
    };
    let update = UpdateWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution: execution("workflow", ""),
        wait_policy: Some(WaitPolicy { lifecycle_stage: UpdateWorkflowExecutionLifecycleStage::Accepted as i32 }),
        request: Some(request.clone()),
        ..UpdateWorkflowExecutionRequest::default()
    };
    let sent = client.call::<UpdateWorkflowExecutionResponse>("UpdateWorkflowExecution", &update);
    let answered = answer(&client, &request);
    let (accepted, ()) = tokio::join!(sent, answered);
    assert_eq!(accepted.unwrap().update_ref.unwrap_or_default().workflow_execution, execution("workflow", &run_id));

    let new = client.reset("workflow", "", 4).await.unwrap();

    let admitted = WorkflowExecutionUpdateAdmittedEventAttributes {
        request: Some(request.clone()),
        origin: UpdateAdmittedEventOrigin::Reapply as i32,
    };
    let history = client.history("workflow", &new).await;
    let fifth = history.get(4).and_then(|event| event.attributes.clone());
    assert_eq!(fifth, Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(admitted)));
    answer(&client, &request).await;
    let accepted = WorkflowExecutionUpdateAcceptedEventAttributes {
        protocol_instance_id: "u".to_owned(),
        accepted_request_message_id: "u/request".to_owned(),
        accepted_request_sequencing_event_id: 5,
        accepted_request: None,
    };
    let last = client.history("workflow", "").await.pop().and_then(|event| event.attributes);
    assert_eq!(last, Some(Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(accepted)));
    client.close().await;
}

async fn answer(client: &Client, request: &Request) {
    let task = client.take_task("workflows").await;
    let (command, message) = accept(request, 5);
    let more = RespondWorkflowTaskCompletedRequest {
        messages: vec![message],
        ..RespondWorkflowTaskCompletedRequest::default()
    };
    client.complete(&task, vec![command], more).await;
}
