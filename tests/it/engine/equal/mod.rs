//! The same requests to the real server and to the engine, where the scripts of `diff` cannot compare: races, ids,
//! timeouts that grow, reads that wait, schedules and cron, and what a worker says about its build.

mod batches;
mod builds;
mod cron;
mod delays;
mod ids;
mod reads;
mod schedules;
pub(super) mod starts;
mod tasks;

use std::time::{Duration, Instant};

use temporalio_protos::temporal::api::{
    command::v1::Command,
    common::v1::{WorkerVersionCapabilities, WorkerVersionStamp, WorkflowExecution, WorkflowType},
    enums::v1::UpdateWorkflowExecutionLifecycleStage as Stage,
    history::v1::HistoryEvent,
    protocol::v1::Message,
    update::v1::{Input, Meta, Request, WaitPolicy},
    workflowservice::v1::{
        ExecuteMultiOperationRequest, ExecuteMultiOperationResponse, GetWorkflowExecutionHistoryRequest,
        ListWorkflowExecutionsRequest, PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse,
        RespondWorkflowTaskCompletedRequest, StartWorkflowExecutionRequest, UpdateWorkflowExecutionRequest,
        execute_multi_operation_request::{Operation, operation},
    },
};
use tonic::{Status, transport::Endpoint};
use uuid::Uuid;

use super::client::{NAMESPACE, Stub, patient, queue};
use crate::support::server::{self, Server};

/// How long a server may take to come up.
const READY: Duration = Duration::from_secs(60);

/// Longer than anything takes that happens at all, in seconds.
const PATIENCE: u64 = 60;

/// What a worker says of its build with everything it sends.
const BUILD: &str = "build 7";

/// One of the servers that are compared.
struct Peer {
    name: &'static str,
    stub: Stub,
    /// Begins every name, so that nothing is found that an earlier test has left.
    prefix: String,
}

/// The real server first: what it does is right.
async fn peers() -> [Peer; 2] {
    [Peer::at("real server", server::temporal()).await, Peer::at("engine", server::embedded()).await]
}

impl Peer {
    async fn at(name: &'static str, server: &Server) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
        let mut stub = Stub::new(endpoint.connect_lazy());
        let deadline = Instant::now() + READY;
        while let Err(status) = stub.list_workflow_executions(list()).await {
            assert!(Instant::now() < deadline, "the {name} is not ready: {status}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Self { name, stub, prefix: Uuid::new_v4().to_string() }
    }

    fn id(&self, name: &str) -> String {
        format!("{name} {}", self.prefix)
    }

    /// A start of the workflow of this name, on the queue of this name.
    fn start_request(&self, name: &str) -> StartWorkflowExecutionRequest {
        StartWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_id: self.id(name),
            workflow_type: Some(WorkflowType { name: "test".to_owned() }),
            task_queue: queue(&self.id(name)),
            request_id: Uuid::new_v4().to_string(),
            ..StartWorkflowExecutionRequest::default()
        }
    }

    async fn start(&self, request: StartWorkflowExecutionRequest) -> String {
        self.stub.clone().start_workflow_execution(request).await.unwrap().into_inner().run_id
    }

    async fn update_with_start(
        &self,
        start: StartWorkflowExecutionRequest,
        update_id: &str,
    ) -> Result<ExecuteMultiOperationResponse, Status> {
        let update = UpdateWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: execution(&start.workflow_id),
            wait_policy: Some(WaitPolicy { lifecycle_stage: Stage::Completed as i32 }),
            request: Some(Request {
                meta: Some(Meta { update_id: update_id.to_owned(), ..Meta::default() }),
                input: Some(Input { name: "update".to_owned(), ..Input::default() }),
                ..Request::default()
            }),
            ..UpdateWorkflowExecutionRequest::default()
        };
        let operations = [operation::Operation::StartWorkflow(start), operation::Operation::UpdateWorkflow(update)];
        let request = ExecuteMultiOperationRequest {
            namespace: NAMESPACE.to_owned(),
            operations: operations.map(|operation| Operation { operation: Some(operation) }).into(),
            ..ExecuteMultiOperationRequest::default()
        };
        self.stub.clone().execute_multi_operation(request).await.map(tonic::Response::into_inner)
    }

    /// The next task of the queue of this name.
    #[expect(deprecated, reason = "unversioned workers still send their build here")]
    async fn task(&self, name: &str) -> PollWorkflowTaskQueueResponse {
        let request = PollWorkflowTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: queue(&self.id(name)),
            identity: "worker".to_owned(),
            worker_version_capabilities: Some(WorkerVersionCapabilities {
                build_id: BUILD.to_owned(),
                ..WorkerVersionCapabilities::default()
            }),
            ..PollWorkflowTaskQueueRequest::default()
        };
        let task = self.stub.clone().poll_workflow_task_queue(patient(request, PATIENCE)).await.unwrap().into_inner();
        assert!(!task.task_token.is_empty(), "no task for `{name}` from the {}", self.name);
        task
    }

    #[expect(deprecated, reason = "unversioned workers still send their build here")]
    async fn decide(&self, task: &PollWorkflowTaskQueueResponse, commands: Vec<Command>, messages: Vec<Message>) {
        let request = RespondWorkflowTaskCompletedRequest {
            namespace: NAMESPACE.to_owned(),
            task_token: task.task_token.clone(),
            identity: "worker".to_owned(),
            worker_version_stamp: stamp(BUILD),
            commands,
            messages,
            ..RespondWorkflowTaskCompletedRequest::default()
        };
        self.stub.clone().respond_workflow_task_completed(request).await.unwrap();
    }

    async fn history(&self, name: &str) -> Vec<HistoryEvent> {
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: NAMESPACE.to_owned(),
            execution: execution(&self.id(name)),
            ..GetWorkflowExecutionHistoryRequest::default()
        };
        let answer = self.stub.clone().get_workflow_execution_history(request).await.unwrap().into_inner();
        answer.history.unwrap_or_default().events
    }
}

fn execution(workflow_id: &str) -> Option<WorkflowExecution> {
    Some(WorkflowExecution { workflow_id: workflow_id.to_owned(), ..WorkflowExecution::default() })
}

fn stamp(build_id: &str) -> Option<WorkerVersionStamp> {
    Some(WorkerVersionStamp { build_id: build_id.to_owned(), ..WorkerVersionStamp::default() })
}

fn list() -> ListWorkflowExecutionsRequest {
    ListWorkflowExecutionsRequest { namespace: NAMESPACE.to_owned(), ..ListWorkflowExecutionsRequest::default() }
}
