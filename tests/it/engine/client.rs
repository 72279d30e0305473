//! The protocol's stubs, with retries for an engine that is killed and restarted.

use std::error::Error as _;

use temporalio_protos::temporal::api::{
    common::v1::{Payload, Payloads, WorkflowExecution},
    enums::v1::{HistoryEventFilterType, TaskQueueKind},
    history::v1::HistoryEvent,
    taskqueue::v1::TaskQueue,
    workflowservice::v1::{
        GetWorkflowExecutionHistoryRequest, GetWorkflowExecutionHistoryResponse,
        workflow_service_client::WorkflowServiceClient,
    },
};
use tokio::sync::watch;
use tonic::{
    Code, Request, Response, Status,
    transport::{Channel, Endpoint},
};

pub(super) const NAMESPACE: &str = "default";
pub(super) const QUEUE: &str = "work";

pub(super) type Stub = WorkflowServiceClient<Channel>;

#[derive(Clone)]
pub(super) struct Client {
    pub(super) stub: Stub,
    /// Whether the engine is up.
    up: watch::Receiver<bool>,
}

impl Client {
    /// Connects on the first request, and again when the connection was lost.
    pub(super) fn new(port: u16, up: watch::Receiver<bool>) -> Self {
        let channel = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap().connect_lazy();
        Self { stub: Stub::new(channel), up }
    }

    /// Repeats a request until the engine has answered it. Returns the number of repeats.
    pub(super) async fn insist<Q: Clone, A>(
        &self,
        request: Q,
        send: impl AsyncFn(&mut Stub, Q) -> Result<Response<A>, Status>,
    ) -> (Result<A, Status>, usize) {
        let mut repeats = 0;
        loop {
            match send(&mut self.stub.clone(), request.clone()).await {
                Err(status) if is_lost(&status) => {
                    repeats += 1;
                    // The engine may be up before the connection is.
                    tokio::task::yield_now().await;
                    let mut up = self.up.clone();
                    up.wait_for(|up| *up).await.expect("the engine comes back");
                }
                answer => return (answer.map(Response::into_inner), repeats),
            }
        }
    }

    /// A run's whole history, or as much as there is.
    pub(super) async fn history(&self, workflow_id: &str, run_id: &str) -> Vec<HistoryEvent> {
        let mut request = history_request(workflow_id, run_id);
        let mut events = Vec::new();
        loop {
            let page = self.page(request.clone()).await.unwrap();
            events.extend(page.history.unwrap_or_default().events);
            if page.next_page_token.is_empty() {
                return events;
            }
            request.next_page_token = page.next_page_token;
        }
    }

    /// The closing event of a run, after waiting for it.
    pub(super) async fn end_of(&self, workflow_id: &str, run_id: &str) -> HistoryEvent {
        let mut request = GetWorkflowExecutionHistoryRequest {
            wait_new_event: true,
            history_event_filter_type: HistoryEventFilterType::CloseEvent as i32,
            ..history_request(workflow_id, run_id)
        };
        loop {
            let page = self.page(request.clone()).await.unwrap();
            if let Some(event) = page.history.unwrap_or_default().events.into_iter().next() {
                return event;
            }
            request.next_page_token = page.next_page_token;
        }
    }

    pub(super) async fn page(
        &self,
        request: GetWorkflowExecutionHistoryRequest,
    ) -> Result<GetWorkflowExecutionHistoryResponse, Status> {
        self.insist(request, async |stub, request| stub.get_workflow_execution_history(request).await).await.0
    }
}

/// The outcome of the request is unknown: the connection broke, or the engine's commit failed.
fn is_lost(status: &Status) -> bool {
    status.code() == Code::Unavailable || status.source().is_some()
}

/// A request with this deadline for a long poll.
pub(super) fn patient<T>(message: T, seconds: u64) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(std::time::Duration::from_secs(seconds));
    request
}

fn history_request(workflow_id: &str, run_id: &str) -> GetWorkflowExecutionHistoryRequest {
    GetWorkflowExecutionHistoryRequest {
        namespace: NAMESPACE.to_owned(),
        execution: execution(workflow_id, run_id),
        ..GetWorkflowExecutionHistoryRequest::default()
    }
}

pub(super) fn execution(workflow_id: &str, run_id: &str) -> Option<WorkflowExecution> {
    Some(WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() })
}

pub(super) fn queue(name: &str) -> Option<TaskQueue> {
    Some(TaskQueue { name: name.to_owned(), kind: TaskQueueKind::Normal as i32, ..TaskQueue::default() })
}

pub(super) fn sticky_queue(name: &str) -> Option<TaskQueue> {
    let kind = TaskQueueKind::Sticky as i32;
    Some(TaskQueue { name: name.to_owned(), kind, normal_name: QUEUE.to_owned() })
}

pub(super) fn payloads(text: &str) -> Option<Payloads> {
    let payload = Payload {
        metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(),
        data: text.as_bytes().to_vec(),
        ..Payload::default()
    };
    Some(Payloads { payloads: vec![payload] })
}

pub(super) fn text(payloads: Option<&Payloads>) -> String {
    let payload = payloads.and_then(|payloads| payloads.payloads.first());
    payload.map(|payload| String::from_utf8_lossy(&payload.data).into_owned()).unwrap_or_default()
}

pub(super) fn milliseconds(ms: u64) -> Option<prost_wkt_types::Duration> {
    let nanos = i32::try_from(ms % 1000).unwrap() * 1_000_000;
    Some(prost_wkt_types::Duration { seconds: i64::try_from(ms / 1000).unwrap(), nanos })
}
