//! Single requests to an engine in this process.

use std::time::Duration;

use temporalio_protos::temporal::api::{
    command::v1::Command,
    common::v1::WorkflowType,
    enums::v1::EventType,
    history::v1::HistoryEvent,
    taskqueue::v1::StickyExecutionAttributes,
    workflowservice::v1::{
        GetWorkflowExecutionHistoryRequest, GetWorkflowExecutionHistoryResponse, PollActivityTaskQueueRequest,
        PollActivityTaskQueueResponse, PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse,
        RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskCompletedResponse, SignalWorkflowExecutionRequest,
        SignalWorkflowExecutionResponse, StartWorkflowExecutionRequest, StartWorkflowExecutionResponse,
    },
};
use tonic::{Code, Status};

use super::{
    client::{NAMESPACE, QUEUE, execution, milliseconds, queue, sticky_queue},
    host::Host,
    plan::{GO, WORKFLOW},
};

/// The sticky queue of the worker.
const CACHE: &str = "cached";

/// Less than a poll waits, and more than anything takes that was not lost.
const PATIENCE: Duration = Duration::from_secs(20);

impl Host {
    /// Starts a workflow; returns its run id.
    pub(super) async fn begin(&self, workflow_id: &str) -> Result<String, Status> {
        let request = StartWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_id: workflow_id.to_owned(),
            workflow_type: Some(WorkflowType { name: WORKFLOW.to_owned() }),
            task_queue: queue(QUEUE),
            request_id: format!("start {workflow_id}"),
            ..StartWorkflowExecutionRequest::default()
        };
        let started: StartWorkflowExecutionResponse = self.call("StartWorkflowExecution", &request, false).await?;
        Ok(started.run_id)
    }

    pub(super) async fn signal(&self, workflow_id: &str, request_id: &str) -> Result<(), Status> {
        self.call("SignalWorkflowExecution", &signal(workflow_id, request_id), false)
            .await
            .map(|SignalWorkflowExecutionResponse { .. }| ())
    }

    pub(super) async fn workflow_task(&self, local: bool) -> Result<PollWorkflowTaskQueueResponse, Status> {
        let request = PollWorkflowTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: queue(QUEUE),
            ..PollWorkflowTaskQueueRequest::default()
        };
        self.call("PollWorkflowTaskQueue", &request, local).await
    }

    /// The next task of a run that the worker keeps; see [`keep`](Self::keep).
    pub(super) async fn task_of_kept_run(&self) -> Result<PollWorkflowTaskQueueResponse, Status> {
        let request = PollWorkflowTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: sticky_queue(CACHE),
            ..PollWorkflowTaskQueueRequest::default()
        };
        self.call("PollWorkflowTaskQueue", &request, false).await
    }

    /// Completes the task without commands and keeps the run in the worker's cache.
    pub(super) async fn keep(&self, task: &PollWorkflowTaskQueueResponse) {
        let request = RespondWorkflowTaskCompletedRequest {
            namespace: NAMESPACE.to_owned(),
            task_token: task.task_token.clone(),
            sticky_attributes: Some(StickyExecutionAttributes {
                worker_task_queue: sticky_queue(CACHE),
                schedule_to_start_timeout: milliseconds(60_000),
            }),
            ..RespondWorkflowTaskCompletedRequest::default()
        };
        let _: RespondWorkflowTaskCompletedResponse =
            self.call("RespondWorkflowTaskCompleted", &request, false).await.unwrap();
    }

    /// The next workflow task, from an engine whose commits may fail meanwhile.
    pub(super) async fn insist_on_task(&self) -> PollWorkflowTaskQueueResponse {
        loop {
            let task = tokio::time::timeout(PATIENCE, self.workflow_task(false)).await.expect("a task comes");
            match task {
                Ok(task) => return task,
                Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
            }
        }
    }

    pub(super) async fn activity(&self, local: bool) -> Result<PollActivityTaskQueueResponse, Status> {
        let request = PollActivityTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: queue(QUEUE),
            ..PollActivityTaskQueueRequest::default()
        };
        self.call("PollActivityTaskQueue", &request, local).await
    }

    pub(super) async fn decide(
        &self,
        task: &PollWorkflowTaskQueueResponse,
        commands: Vec<Command>,
    ) -> Result<RespondWorkflowTaskCompletedResponse, Status> {
        let request = RespondWorkflowTaskCompletedRequest {
            namespace: NAMESPACE.to_owned(),
            task_token: task.task_token.clone(),
            commands,
            ..RespondWorkflowTaskCompletedRequest::default()
        };
        self.call("RespondWorkflowTaskCompleted", &request, false).await
    }

    /// As [`decide`](Self::decide), repeated until it is acknowledged or rejected.
    pub(super) async fn insist_on_decision(
        &self,
        task: &PollWorkflowTaskQueueResponse,
        commands: Vec<Command>,
    ) -> Result<RespondWorkflowTaskCompletedResponse, Status> {
        loop {
            match self.decide(task, commands.clone()).await {
                Err(status) if status.code() == Code::Unavailable => {}
                answer => return answer,
            }
        }
    }

    /// The types of a workflow's events so far.
    pub(super) async fn events(&self, workflow_id: &str) -> Vec<EventType> {
        self.history(workflow_id).await.iter().map(HistoryEvent::event_type).collect()
    }

    pub(super) async fn history(&self, workflow_id: &str) -> Vec<HistoryEvent> {
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: NAMESPACE.to_owned(),
            execution: execution(workflow_id, ""),
            ..GetWorkflowExecutionHistoryRequest::default()
        };
        let page: GetWorkflowExecutionHistoryResponse =
            self.call("GetWorkflowExecutionHistory", &request, false).await.unwrap();
        page.history.unwrap_or_default().events
    }
}

pub(super) fn signal(workflow_id: &str, request_id: &str) -> SignalWorkflowExecutionRequest {
    SignalWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution: execution(workflow_id, ""),
        signal_name: GO.to_owned(),
        request_id: request_id.to_owned(),
        ..SignalWorkflowExecutionRequest::default()
    }
}

pub(super) fn is_unavailable<T>(answer: &Result<T, Status>) -> bool {
    answer.as_ref().err().is_some_and(|status| status.code() == Code::Unavailable)
}
