//! Reads of a history that wait for it to go on.

use temporalio_protos::temporal::api::{
    enums::v1::{EventType, HistoryEventFilterType},
    history::v1::HistoryEvent,
    workflowservice::v1::{
        DescribeWorkflowExecutionRequest, GetWorkflowExecutionHistoryRequest, TerminateWorkflowExecutionRequest,
    },
};

use super::{NAMESPACE, PATIENCE, execution, peers};
use crate::{engine::client::patient, support::block_on};

/// Requests that are answered after the read was sent, so that it is there before the run ends.
const HEAD_START: usize = 50;

#[test]
fn a_close_event_filter_waits_for_the_close_event() {
    block_on(async {
        let mut seen = Vec::new();
        for peer in peers().await {
            peer.start(peer.start_request("read")).await;
            let read = GetWorkflowExecutionHistoryRequest {
                namespace: NAMESPACE.to_owned(),
                execution: execution(&peer.id("read")),
                history_event_filter_type: HistoryEventFilterType::CloseEvent as i32,
                wait_new_event: false,
                ..GetWorkflowExecutionHistoryRequest::default()
            };
            let mut stub = peer.stub.clone();
            let read = tokio::spawn(async move { stub.get_workflow_execution_history(patient(read, PATIENCE)).await });
            for _ in 0..HEAD_START {
                let describe = DescribeWorkflowExecutionRequest {
                    namespace: NAMESPACE.to_owned(),
                    execution: execution(&peer.id("read")),
                };
                peer.stub.clone().describe_workflow_execution(describe).await.unwrap();
            }
            let terminate = TerminateWorkflowExecutionRequest {
                namespace: NAMESPACE.to_owned(),
                workflow_execution: execution(&peer.id("read")),
                ..TerminateWorkflowExecutionRequest::default()
            };
            peer.stub.clone().terminate_workflow_execution(terminate).await.unwrap();
            let answer = read.await.unwrap().unwrap().into_inner();
            let events = answer.history.unwrap_or_default().events;
            seen.push(events.iter().map(HistoryEvent::event_type).collect::<Vec<_>>());
        }
        assert_eq!(seen, [[EventType::WorkflowExecutionTerminated], [EventType::WorkflowExecutionTerminated]]);
    });
}
