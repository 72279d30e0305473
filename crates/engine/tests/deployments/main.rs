//! A rollout that a restart interrupts.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{path::Path, time::Duration};

use prost::Message;
use temporalio_protos::temporal::api::{
    common::v1::{WorkflowExecution, WorkflowType},
    deployment::v1::WorkerDeploymentOptions,
    enums::v1::{VersioningBehavior as Behavior, WorkerVersioningMode},
    taskqueue::v1::TaskQueue,
    workflowservice::v1::{
        DescribeWorkerDeploymentRequest, DescribeWorkerDeploymentResponse, PollWorkflowTaskQueueRequest,
        PollWorkflowTaskQueueResponse, RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskCompletedResponse,
        SetWorkerDeploymentCurrentVersionRequest, SetWorkerDeploymentCurrentVersionResponse,
        SetWorkerDeploymentRampingVersionRequest, SetWorkerDeploymentRampingVersionResponse,
        SignalWorkflowExecutionRequest, SignalWorkflowExecutionResponse, StartWorkflowExecutionRequest,
        StartWorkflowExecutionResponse,
    },
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use windlass_engine::{Call, Engine, Handle, Options};
use windlass_sqlite::Database;

const NAMESPACE: &str = "default";

struct Client {
    handle: Handle,
    stop: CancellationToken,
    engine: JoinHandle<()>,
}

impl Client {
    async fn open(directory: &Path) -> Self {
        let database = Database::open(windlass_sqlite::Options::new(directory.join("engine.db"))).unwrap();
        let (engine, handle) = Engine::open(Options::new(database)).unwrap();
        let stop = CancellationToken::new();
        let running = engine.run(stop.clone());
        Self { handle, stop, engine: tokio::spawn(async { running.await.unwrap() }) }
    }

    async fn restart(self, directory: &Path) -> Self {
        self.stop.cancel();
        self.engine.await.unwrap();
        drop(self.handle);
        Self::open(directory).await
    }

    async fn call<Response: Message + Default>(&self, rpc: &str, request: &impl Message) -> Result<Response, Status> {
        let call = Call {
            service: "temporal.api.workflowservice.v1.WorkflowService".to_owned(),
            rpc: rpc.to_owned(),
            message: request.encode_to_vec().into(),
            timeout: Some(Duration::from_secs(20)),
            client: String::new(),
            local: false,
        };
        Ok(Response::decode(self.handle.call(call).await?.as_slice()).unwrap())
    }

    async fn start(&self, workflow_id: &str) {
        let request = StartWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_id: workflow_id.to_owned(),
            workflow_type: Some(WorkflowType { name: "kind".to_owned() }),
            task_queue: queue(),
            request_id: workflow_id.to_owned(),
            ..StartWorkflowExecutionRequest::default()
        };
        let _: StartWorkflowExecutionResponse = self.call("StartWorkflowExecution", &request).await.unwrap();
    }

    async fn signal(&self, workflow_id: &str) {
        let execution = WorkflowExecution { workflow_id: workflow_id.to_owned(), ..WorkflowExecution::default() };
        let request = SignalWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: Some(execution),
            signal_name: "go".to_owned(),
            ..SignalWorkflowExecutionRequest::default()
        };
        let _: SignalWorkflowExecutionResponse = self.call("SignalWorkflowExecution", &request).await.unwrap();
    }

    /// The next task for workers of this build.
    async fn take(&self, build_id: &str) -> PollWorkflowTaskQueueResponse {
        let request = PollWorkflowTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: queue(),
            deployment_options: Some(options(build_id)),
            ..PollWorkflowTaskQueueRequest::default()
        };
        self.call("PollWorkflowTaskQueue", &request).await.unwrap()
    }

    /// Completes the next task for this build, and returns whose it was.
    async fn complete(&self, build_id: &str, behavior: Behavior) -> String {
        let task = self.take(build_id).await;
        let request = RespondWorkflowTaskCompletedRequest {
            namespace: NAMESPACE.to_owned(),
            task_token: task.task_token,
            versioning_behavior: behavior as i32,
            deployment_options: Some(options(build_id)),
            ..RespondWorkflowTaskCompletedRequest::default()
        };
        let _: RespondWorkflowTaskCompletedResponse =
            self.call("RespondWorkflowTaskCompleted", &request).await.unwrap();
        task.workflow_execution.unwrap_or_default().workflow_id
    }

    async fn make_current(&self, build_id: &str) {
        let request = SetWorkerDeploymentCurrentVersionRequest {
            namespace: NAMESPACE.to_owned(),
            deployment_name: "d".to_owned(),
            build_id: build_id.to_owned(),
            // No worker of the build has polled yet.
            allow_no_pollers: true,
            ignore_missing_task_queues: true,
            ..SetWorkerDeploymentCurrentVersionRequest::default()
        };
        let _: SetWorkerDeploymentCurrentVersionResponse =
            self.call("SetWorkerDeploymentCurrentVersion", &request).await.unwrap();
    }

    async fn ramp(&self, build_id: &str, percentage: f32) {
        let request = SetWorkerDeploymentRampingVersionRequest {
            namespace: NAMESPACE.to_owned(),
            deployment_name: "d".to_owned(),
            build_id: build_id.to_owned(),
            percentage,
            ..SetWorkerDeploymentRampingVersionRequest::default()
        };
        let _: SetWorkerDeploymentRampingVersionResponse =
            self.call("SetWorkerDeploymentRampingVersion", &request).await.unwrap();
    }

    async fn described(&self) -> DescribeWorkerDeploymentResponse {
        let request =
            DescribeWorkerDeploymentRequest { namespace: NAMESPACE.to_owned(), deployment_name: "d".to_owned() };
        self.call("DescribeWorkerDeployment", &request).await.unwrap()
    }
}

fn queue() -> Option<TaskQueue> {
    Some(TaskQueue { name: "q".to_owned(), ..TaskQueue::default() })
}

fn options(build_id: &str) -> WorkerDeploymentOptions {
    WorkerDeploymentOptions {
        deployment_name: "d".to_owned(),
        build_id: build_id.to_owned(),
        worker_versioning_mode: WorkerVersioningMode::Versioned as i32,
    }
}

/// Both builds have polled the task queue, and build 1 has a pinned run and one that upgrades.
async fn two_runs_on_build_1(client: &Client) {
    client.start("first of 2").await;
    client.make_current("2").await;
    // The poll registers build 2 with the task queue, and only then the task goes to it.
    assert_eq!(client.complete("2", Behavior::Pinned).await, "first of 2");
    client.start("stays").await;
    client.make_current("1").await;
    assert_eq!(client.complete("1", Behavior::Pinned).await, "stays");
    client.start("moves").await;
    assert_eq!(client.complete("1", Behavior::AutoUpgrade).await, "moves");
}

#[tokio::test]
async fn a_rollout_survives_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let mut client = Client::open(directory.path()).await;
    two_runs_on_build_1(&client).await;
    client.ramp("2", 100.0).await;

    // The routing is still there, also for a run that was started before the restart.
    client.start("ramped").await;
    let before = client.described().await;
    client = client.restart(directory.path()).await;
    assert_eq!(client.described().await, before);
    assert_eq!(client.complete("2", Behavior::Pinned).await, "ramped");

    // Tasks that wait for the workers of a version wait for them after a restart, too.
    client.make_current("2").await;
    client.signal("stays").await;
    client.signal("moves").await;
    client = client.restart(directory.path()).await;
    assert_eq!(client.complete("2", Behavior::AutoUpgrade).await, "moves");
    assert_eq!(client.complete("1", Behavior::Pinned).await, "stays");

    // A transition that a restart interrupts ends with a task of the new version.
    client.make_current("1").await;
    client.signal("moves").await;
    let task = client.take("1").await;
    assert_eq!(task.workflow_execution.unwrap_or_default().workflow_id, "moves");
    client.make_current("2").await;
    client = client.restart(directory.path()).await;
    client.signal("stays").await;
    assert_eq!(client.complete("1", Behavior::Pinned).await, "stays");
    client.stop.cancel();
    client.engine.await.unwrap();
}
