//! Runs that are terminated or reset on the Temporal server: their logs get a terminal event.

use std::time::Duration;

use serde_json::{Value, json};
use temporalio_client::{NamespacedClient as _, UntypedWorkflow, WorkflowTerminateOptions};
use temporalio_protos::temporal::api::{
    common::v1::WorkflowExecution, enums::v1::EventType, workflowservice::v1::ResetWorkflowExecutionRequest,
};
use tonic::IntoRequest as _;
use windlass_core::ids::RunId;

use super::rig::{Rig, ask_with_tool};
use crate::support::world::{scripts, within};

fn waiting() -> Value {
    scripts([("wait", json!({"turns": [{"tool_calls": [{"name": "probe", "args": {}}]}, {"text": "done"}]}))])
}

async fn rig() -> Rig {
    Rig::with(waiting(), |options| options.limits.repair_interval = Duration::from_millis(100)).await
}

fn probe() -> Value {
    ask_with_tool("wait", json!({"kind": "local", "name": "probe"}))
}

async fn terminate(rig: &Rig, run: &str) {
    let handle = rig.world.ops.client().get_workflow_handle::<UntypedWorkflow>(run);
    let options = WorkflowTerminateOptions::builder().reason("enough").build();
    within("the run's end", handle.terminate(options)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_run_ends_for_its_readers_and_in_its_row() {
    let rig = rig().await;
    let run = rig.run(probe()).await;
    let mut stream = rig.stream(&run, None).await;
    stream.until("local_tool_call").await;
    terminate(&rig, &run).await;

    let last = stream.rest().await.pop().unwrap();
    assert_eq!(
        (&last["type"], &last["code"], &last["turns"], &last["toolCalls"]),
        (&json!("error"), &json!("RUN0012"), &json!(1), &json!(1)),
        "{last}"
    );
    let row = rig.get(&format!("/agent-runs/{run}")).await.body;
    assert_eq!((&row["status"], &row["error"]), (&json!("failed"), &last["error"]), "{row}");
    let awaits = rig.get(&format!("/agent-runs/{run}/awaits")).await.body;
    assert_eq!(awaits["awaits"], json!([]), "{awaits}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_terminated_without_an_api_server_is_ended_by_the_next_one() {
    let mut rig = rig().await;
    let run = rig.run(probe()).await;
    rig.stream(&run, None).await.until("local_tool_call").await;
    rig.stop().await;
    terminate(&rig, &run).await;
    rig.start_again().await;
    assert_eq!(rig.ending(&run).await["code"], "RUN0012");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_reset_continues() {
    let rig = rig().await;
    let run = rig.run(probe()).await;
    rig.stream(&run, None).await.until("local_tool_call").await;
    reset(&rig, &RunId::new(&run)).await;

    // Once the later termination of another run is in its log, the closed execution before the reset was listed too.
    let other = rig.run(probe()).await;
    let mut stream = rig.stream(&other, None).await;
    stream.until("local_tool_call").await;
    terminate(&rig, &other).await;
    stream.until("error").await;
    let row = rig.get(&format!("/agent-runs/{run}")).await.body;
    assert_eq!(row["status"], "running", "{row}");
}

/// Lets a run take its last decision again, in an execution of its own.
async fn reset(rig: &Rig, run: &RunId) {
    rig.world.at_rest(run).await;
    let client = rig.world.ops.client();
    let handle = client.get_workflow_handle::<UntypedWorkflow>(run.as_str());
    let history = within("the history", handle.fetch_history(Default::default()).into_events()).await.unwrap();
    let decided = history.iter().rfind(|event| event.event_type() == EventType::WorkflowTaskCompleted).unwrap();
    let request = ResetWorkflowExecutionRequest {
        namespace: client.namespace(),
        workflow_execution: Some(WorkflowExecution { workflow_id: run.to_string(), run_id: String::new() }),
        reason: "again".to_owned(),
        workflow_task_finish_event_id: decided.event_id,
        request_id: "reset".to_owned(),
        ..ResetWorkflowExecutionRequest::default()
    };
    let mut service = client.connection().workflow_service();
    within("a reset", service.reset_workflow_execution(request.into_request())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_run_says_who_ended_it_and_why() {
    let rig = rig().await;
    let run = rig.run(probe()).await;
    let mut stream = rig.stream(&run, None).await;
    stream.until("local_tool_call").await;
    terminate(&rig, &run).await;
    let last = stream.rest().await.pop().unwrap();
    let said = last["error"].as_str().unwrap();
    assert!(said.starts_with("The run was terminated on the Temporal server by "), "{said}");
    assert!(said.ends_with(": enough. Start it again if it is still wanted."), "{said}");
}
