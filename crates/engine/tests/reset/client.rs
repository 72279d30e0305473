//! An engine on its own file, and a client that is also the worker.

use std::{path::Path, time::Duration};

use prost::Message;
use temporalio_protos::temporal::api::{
    command::v1::Command,
    common::v1::{WorkflowExecution, WorkflowType},
    enums::v1::EventType,
    history::v1::HistoryEvent,
    taskqueue::v1::TaskQueue,
    workflow::v1::WorkflowExecutionExtendedInfo,
    workflowservice::v1::{
        DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse, GetWorkflowExecutionHistoryRequest,
        GetWorkflowExecutionHistoryResponse, PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse,
        ResetWorkflowExecutionRequest, ResetWorkflowExecutionResponse, RespondWorkflowTaskCompletedRequest,
        RespondWorkflowTaskCompletedResponse, SignalWorkflowExecutionRequest, SignalWorkflowExecutionResponse,
        StartWorkflowExecutionRequest, StartWorkflowExecutionResponse,
    },
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use windlass_engine::{Call, Engine, Handle, Options};
use windlass_sqlite::Database;

const SERVICE: &str = "temporal.api.workflowservice.v1.WorkflowService";
pub(crate) const NAMESPACE: &str = "default";

pub(crate) struct Client {
    handle: Handle,
    stop: CancellationToken,
    engine: JoinHandle<()>,
}

impl Client {
    pub(crate) async fn open(directory: &Path) -> Self {
        let database = Database::open(windlass_sqlite::Options::new(directory.join("engine.db"))).unwrap();
        let (engine, handle) = Engine::open(Options::new(database)).unwrap();
        let stop = CancellationToken::new();
        let running = engine.run(stop.clone());
        let engine = tokio::spawn(async { running.await.unwrap() });
        Self { handle, stop, engine }
    }

    pub(crate) async fn close(self) {
        self.stop.cancel();
        self.engine.await.unwrap();
    }

    pub(crate) async fn call<Response: Message + Default>(
        &self,
        rpc: &str,
        request: &impl Message,
    ) -> Result<Response, Status> {
        let call = Call {
            service: SERVICE.to_owned(),
            rpc: rpc.to_owned(),
            message: request.encode_to_vec().into(),
            timeout: Some(Duration::from_secs(20)),
            client: String::new(),
            local: false,
        };
        let answer = self.handle.call(call).await?;
        Ok(Response::decode(answer.as_slice()).unwrap())
    }

    pub(crate) async fn start(&self, workflow_id: &str) -> String {
        let request = StartWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_id: workflow_id.to_owned(),
            workflow_type: Some(WorkflowType { name: "kind".to_owned() }),
            task_queue: queue("workflows"),
            request_id: "start".to_owned(),
            ..StartWorkflowExecutionRequest::default()
        };
        let started: StartWorkflowExecutionResponse = self.call("StartWorkflowExecution", &request).await.unwrap();
        started.run_id
    }

    pub(crate) async fn signal(&self, workflow_id: &str, name: &str) {
        let request = SignalWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: execution(workflow_id, ""),
            signal_name: name.to_owned(),
            ..SignalWorkflowExecutionRequest::default()
        };
        let _: SignalWorkflowExecutionResponse = self.call("SignalWorkflowExecution", &request).await.unwrap();
    }

    pub(crate) async fn take_task(&self, name: &str) -> PollWorkflowTaskQueueResponse {
        let request = PollWorkflowTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: queue(name),
            identity: "worker".to_owned(),
            ..PollWorkflowTaskQueueRequest::default()
        };
        self.call("PollWorkflowTaskQueue", &request).await.unwrap()
    }

    pub(crate) async fn complete(
        &self,
        task: &PollWorkflowTaskQueueResponse,
        commands: Vec<Command>,
        more: RespondWorkflowTaskCompletedRequest,
    ) -> RespondWorkflowTaskCompletedResponse {
        let request = RespondWorkflowTaskCompletedRequest {
            namespace: NAMESPACE.to_owned(),
            task_token: task.task_token.clone(),
            commands,
            identity: "worker".to_owned(),
            ..more
        };
        self.call("RespondWorkflowTaskCompleted", &request).await.unwrap()
    }

    /// Polls the next task and completes it. Returns its run id.
    pub(crate) async fn decide(&self, name: &str, commands: Vec<Command>) -> String {
        let task = self.take_task(name).await;
        self.complete(&task, commands, RespondWorkflowTaskCompletedRequest::default()).await;
        task.workflow_execution.unwrap_or_default().run_id
    }

    pub(crate) async fn reset(&self, workflow_id: &str, run_id: &str, finish_id: i64) -> Result<String, Status> {
        self.reset_with(ResetWorkflowExecutionRequest {
            workflow_execution: execution(workflow_id, run_id),
            workflow_task_finish_event_id: finish_id,
            ..ResetWorkflowExecutionRequest::default()
        })
        .await
    }

    pub(crate) async fn reset_with(&self, more: ResetWorkflowExecutionRequest) -> Result<String, Status> {
        let request = ResetWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            reason: "again".to_owned(),
            request_id: "reset".to_owned(),
            ..more
        };
        let reset: ResetWorkflowExecutionResponse = self.call("ResetWorkflowExecution", &request).await?;
        Ok(reset.run_id)
    }

    pub(crate) async fn history(&self, workflow_id: &str, run_id: &str) -> Vec<HistoryEvent> {
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: NAMESPACE.to_owned(),
            execution: execution(workflow_id, run_id),
            ..GetWorkflowExecutionHistoryRequest::default()
        };
        let response: GetWorkflowExecutionHistoryResponse =
            self.call("GetWorkflowExecutionHistory", &request).await.unwrap();
        response.history.unwrap_or_default().events
    }

    /// The first event of this type, after waiting for it.
    pub(crate) async fn wait_for(&self, workflow_id: &str, run_id: &str, kind: EventType) -> HistoryEvent {
        let mut request = GetWorkflowExecutionHistoryRequest {
            namespace: NAMESPACE.to_owned(),
            execution: execution(workflow_id, run_id),
            wait_new_event: true,
            ..GetWorkflowExecutionHistoryRequest::default()
        };
        loop {
            let page: GetWorkflowExecutionHistoryResponse =
                self.call("GetWorkflowExecutionHistory", &request).await.unwrap();
            let mut events = page.history.unwrap_or_default().events.into_iter();
            if let Some(event) = events.find(|event| event.event_type() == kind) {
                return event;
            }
            assert!(!page.next_page_token.is_empty(), "the run ended without {kind:?}");
            request.next_page_token = page.next_page_token;
        }
    }

    pub(crate) async fn kinds(&self, workflow_id: &str, run_id: &str) -> Vec<EventType> {
        self.history(workflow_id, run_id).await.iter().map(HistoryEvent::event_type).collect()
    }

    pub(crate) async fn describe(&self, workflow_id: &str, run_id: &str) -> DescribeWorkflowExecutionResponse {
        let request = DescribeWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            execution: execution(workflow_id, run_id),
        };
        self.call("DescribeWorkflowExecution", &request).await.unwrap()
    }

    pub(crate) async fn extended(&self, workflow_id: &str, run_id: &str) -> WorkflowExecutionExtendedInfo {
        self.describe(workflow_id, run_id).await.workflow_extended_info.unwrap_or_default()
    }
}

pub(crate) fn execution(workflow_id: &str, run_id: &str) -> Option<WorkflowExecution> {
    Some(WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() })
}

pub(crate) fn queue(name: &str) -> Option<TaskQueue> {
    Some(TaskQueue { name: name.to_owned(), ..TaskQueue::default() })
}
