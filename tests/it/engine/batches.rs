//! A batch operation in an engine that is killed.

use temporalio_protos::temporal::api::{
    batch::v1::BatchOperationSignal,
    common::v1::{Execution, WorkflowType},
    enums::v1::{BatchOperationState, EventType, ExecutionType},
    workflowservice::v1::{
        DescribeBatchOperationRequest, DescribeBatchOperationResponse, GetWorkflowExecutionHistoryRequest,
        StartBatchOperationRequest, StartWorkflowExecutionRequest, start_batch_operation_request::Operation,
    },
};

use super::{
    client::{Client, NAMESPACE, QUEUE, execution, queue},
    kill::Engines,
};
use crate::support::block_on;

const RUNS: usize = 40;
/// The engine is killed after this run was signalled.
const KILLED_AT: usize = 10;
/// Executions a second.
const RATE: f32 = 40.0;
const JOB: &str = "job";

#[test]
fn a_batch_goes_on_after_a_kill_and_signals_each_run_once() {
    block_on(async {
        let mut engines = Engines::new();
        engines.start();
        let client = engines.client();
        let ids: Vec<String> = (0..RUNS).map(|number| format!("w{number}")).collect();
        for id in &ids {
            start(&client, id).await;
        }
        let target = |id: &String| Execution {
            r#type: ExecutionType::Workflow as i32,
            business_id: id.clone(),
            run_id: String::new(),
        };
        let request = StartBatchOperationRequest {
            namespace: NAMESPACE.to_owned(),
            job_id: JOB.to_owned(),
            reason: "reason".to_owned(),
            target_executions: ids.iter().map(target).collect(),
            max_operations_per_second: RATE,
            operation: Some(Operation::SignalOperation(BatchOperationSignal {
                signal: "signal".to_owned(),
                ..BatchOperationSignal::default()
            })),
            ..StartBatchOperationRequest::default()
        };
        client.insist(request, async |stub, it| stub.start_batch_operation(it).await).await.0.unwrap();

        signalled(&client, &ids[KILLED_AT]).await;
        engines.kill();
        engines.start();

        signalled(&client, &ids[RUNS - 1]).await;
        let described = loop {
            let described = describe(&client).await;
            if described.state() != BatchOperationState::Running {
                break described;
            }
            tokio::task::yield_now().await;
        };
        let counts = (described.total_operation_count, described.complete_operation_count);
        let all = i64::try_from(RUNS).unwrap();
        assert_eq!((described.state(), counts), (BatchOperationState::Completed, (all, all)));
        for id in &ids {
            let events = client.history(id, "").await;
            let signals = events.iter().filter(|event| event.event_type() == EventType::WorkflowExecutionSignaled);
            assert_eq!(signals.count(), 1, "{id}");
        }
        engines.kill();
    });
}

async fn start(client: &Client, id: &str) {
    let request = StartWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_id: id.to_owned(),
        workflow_type: Some(WorkflowType { name: "kind".to_owned() }),
        task_queue: queue(QUEUE),
        request_id: id.to_owned(),
        ..StartWorkflowExecutionRequest::default()
    };
    client.insist(request, async |stub, it| stub.start_workflow_execution(it).await).await.0.unwrap();
}

async fn describe(client: &Client) -> DescribeBatchOperationResponse {
    let request = DescribeBatchOperationRequest { namespace: NAMESPACE.to_owned(), job_id: JOB.to_owned() };
    client.insist(request, async |stub, it| stub.describe_batch_operation(it).await).await.0.unwrap()
}

/// Waits until the run was signalled.
async fn signalled(client: &Client, id: &str) {
    let mut request = GetWorkflowExecutionHistoryRequest {
        namespace: NAMESPACE.to_owned(),
        execution: execution(id, ""),
        wait_new_event: true,
        ..GetWorkflowExecutionHistoryRequest::default()
    };
    loop {
        let page = client.page(request.clone()).await.unwrap();
        let events = page.history.unwrap_or_default().events;
        if events.iter().any(|event| event.event_type() == EventType::WorkflowExecutionSignaled) {
            return;
        }
        request.next_page_token = page.next_page_token;
    }
}
