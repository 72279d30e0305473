//! An engine on a temporary database, and a worker that follows the test.

use std::{path::Path, sync::Arc, time::Duration};

use prost::Message;
use prost_wkt_types::{Duration as ProtoDuration, Timestamp};
use tempfile::TempDir;
use temporalio_protos::temporal::api::{
    command::v1::{
        Command, CompleteWorkflowExecutionCommandAttributes, ContinueAsNewWorkflowExecutionCommandAttributes,
        ScheduleActivityTaskCommandAttributes, StartChildWorkflowExecutionCommandAttributes,
        StartTimerCommandAttributes, command::Attributes,
    },
    common::v1::{ActivityType, Payloads, RetryPolicy, WorkflowExecution, WorkflowType},
    enums::v1::{CommandType, EventType},
    history::v1::HistoryEvent,
    taskqueue::v1::TaskQueue,
    workflowservice::v1::{
        GetWorkflowExecutionHistoryRequest, GetWorkflowExecutionHistoryResponse, PollActivityTaskQueueRequest,
        PollActivityTaskQueueResponse, PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse,
        RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskCompletedResponse, StartWorkflowExecutionRequest,
        StartWorkflowExecutionResponse,
    },
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use windlass_engine::{Call, Clock, Engine, Handle, Options, SkippingClock};
use windlass_sqlite::Database;

pub(crate) const WORKFLOWS: &str = "temporal.api.workflowservice.v1.WorkflowService";
pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const DAY: i64 = 24 * 3600 * SECOND;
pub(crate) const WEEK: i64 = 7 * DAY;

/// Real time that a test may take without time being skipped.
const SLACK: i64 = 60 * SECOND;

pub(crate) struct Rig {
    pub(crate) engine: Handle,
    stop: CancellationToken,
    running: JoinHandle<()>,
    pub(crate) dir: Arc<TempDir>,
}

impl Rig {
    pub(crate) async fn new(clock: &Arc<SkippingClock>) -> Self {
        Self::on(Arc::new(TempDir::new().unwrap()), clock.clone()).await
    }

    pub(crate) async fn on(dir: Arc<TempDir>, clock: Arc<dyn Clock>) -> Self {
        let (engine, handle) = Engine::open(Options { clock, ..Options::new(database(dir.path())) }).unwrap();
        let stop = CancellationToken::new();
        let running = engine.run(stop.clone());
        let running = tokio::spawn(async move { running.await.unwrap() });
        Self { engine: handle, stop, running, dir }
    }

    /// Stops the engine and returns its directory.
    pub(crate) async fn close(self) -> Arc<TempDir> {
        self.stop.cancel();
        self.running.await.unwrap();
        self.engine.database().close().await.unwrap();
        self.dir
    }

    pub(crate) async fn ask<Response: Message + Default>(
        &self,
        service: &str,
        rpc: &str,
        request: &impl Message,
    ) -> Result<Response, Status> {
        let message = request.encode_to_vec().into();
        let call = Call {
            service: service.to_owned(),
            rpc: rpc.to_owned(),
            message,
            timeout: None,
            client: String::new(),
            local: true,
        };
        let answer = tokio::time::timeout(Duration::from_secs(30), self.engine.call(call)).await;
        Ok(Response::decode(&*answer.expect("an answer in time")?).unwrap())
    }

    /// Calls the workflow service, which must not fail.
    pub(crate) async fn workflows<Response: Message + Default>(&self, rpc: &str, request: &impl Message) -> Response {
        self.ask(WORKFLOWS, rpc, request).await.unwrap()
    }

    /// Starts a workflow on a task queue of the same name.
    pub(crate) async fn start(&self, id: &str) {
        let request = StartWorkflowExecutionRequest {
            namespace: "default".into(),
            workflow_id: id.into(),
            workflow_type: Some(WorkflowType { name: "test".into() }),
            task_queue: Some(queue(id)),
            request_id: id.into(),
            // Long enough that a task held by a test does not time out.
            workflow_task_timeout: Some(span(100 * SECOND)),
            ..StartWorkflowExecutionRequest::default()
        };
        let _: StartWorkflowExecutionResponse = self.workflows("StartWorkflowExecution", &request).await;
    }

    pub(crate) async fn task(&self, id: &str) -> PollWorkflowTaskQueueResponse {
        let request = PollWorkflowTaskQueueRequest {
            namespace: "default".into(),
            task_queue: Some(queue(id)),
            ..PollWorkflowTaskQueueRequest::default()
        };
        let task: PollWorkflowTaskQueueResponse = self.workflows("PollWorkflowTaskQueue", &request).await;
        assert!(!task.task_token.is_empty(), "a task for {id}");
        task
    }

    pub(crate) async fn activity(&self, queue_name: &str) -> PollActivityTaskQueueResponse {
        let request = PollActivityTaskQueueRequest {
            namespace: "default".into(),
            task_queue: Some(queue(queue_name)),
            ..PollActivityTaskQueueRequest::default()
        };
        let task: PollActivityTaskQueueResponse = self.workflows("PollActivityTaskQueue", &request).await;
        assert!(!task.task_token.is_empty(), "an activity for {queue_name}");
        task
    }

    pub(crate) async fn decide<const N: usize>(&self, task: &PollWorkflowTaskQueueResponse, commands: [Command; N]) {
        let request = RespondWorkflowTaskCompletedRequest {
            task_token: task.task_token.clone(),
            commands: commands.into(),
            ..RespondWorkflowTaskCompletedRequest::default()
        };
        let _: RespondWorkflowTaskCompletedResponse = self.workflows("RespondWorkflowTaskCompleted", &request).await;
    }

    /// Polls the next task and completes it with these commands.
    pub(crate) async fn turn<const N: usize>(&self, id: &str, commands: [Command; N]) {
        self.decide(&self.task(id).await, commands).await;
    }

    pub(crate) async fn history(&self, id: &str) -> Vec<HistoryEvent> {
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: "default".into(),
            execution: Some(WorkflowExecution { workflow_id: id.into(), ..WorkflowExecution::default() }),
            ..GetWorkflowExecutionHistoryRequest::default()
        };
        let response: GetWorkflowExecutionHistoryResponse =
            self.workflows("GetWorkflowExecutionHistory", &request).await;
        response.history.unwrap().events
    }

    /// The time of the first event of this type.
    pub(crate) async fn time_of(&self, id: &str, kind: EventType) -> i64 {
        let events = self.history(id).await;
        nanos(events.iter().find(|event| event.event_type() == kind).unwrap().event_time.unwrap())
    }
}

fn database(dir: &Path) -> Database {
    Database::open(windlass_sqlite::Options::new(dir.join("engine.db"))).unwrap()
}

/// Asserts that this much time passed, within the slack.
#[track_caller]
pub(crate) fn assert_span(from: i64, to: i64, span: i64) {
    assert!((span..span + SLACK).contains(&(to - from)), "{} s instead of {} s", (to - from) / SECOND, span / SECOND);
}

pub(crate) fn unlocked() -> Arc<SkippingClock> {
    let clock = SkippingClock::new();
    clock.unlock().unwrap();
    Arc::new(clock)
}

pub(crate) fn queue(name: &str) -> TaskQueue {
    TaskQueue { name: name.into(), ..TaskQueue::default() }
}

pub(crate) fn span(nanos: i64) -> ProtoDuration {
    ProtoDuration { seconds: nanos / SECOND, nanos: (nanos % SECOND) as i32 }
}

pub(crate) fn nanos(at: Timestamp) -> i64 {
    at.seconds * SECOND + i64::from(at.nanos)
}

fn command(kind: CommandType, attributes: Attributes) -> Command {
    Command { command_type: kind as i32, attributes: Some(attributes), ..Command::default() }
}

pub(crate) fn timer(id: &str, after: i64) -> Command {
    let timer = StartTimerCommandAttributes { timer_id: id.into(), start_to_fire_timeout: Some(span(after)) };
    command(CommandType::StartTimer, Attributes::StartTimerCommandAttributes(timer))
}

/// An activity on the workflow's own task queue, retried after one day, two days, four days and so on.
pub(crate) fn activity(queue_name: &str) -> Command {
    let activity = ScheduleActivityTaskCommandAttributes {
        activity_id: "activity".into(),
        activity_type: Some(ActivityType { name: "test".into() }),
        task_queue: Some(queue(queue_name)),
        start_to_close_timeout: Some(span(100 * SECOND)),
        retry_policy: Some(RetryPolicy {
            initial_interval: Some(span(DAY)),
            backoff_coefficient: 2.0,
            maximum_interval: Some(span(100 * DAY)),
            ..RetryPolicy::default()
        }),
        ..ScheduleActivityTaskCommandAttributes::default()
    };
    command(CommandType::ScheduleActivityTask, Attributes::ScheduleActivityTaskCommandAttributes(activity))
}

pub(crate) fn child(id: &str) -> Command {
    let child = StartChildWorkflowExecutionCommandAttributes {
        workflow_id: id.into(),
        workflow_type: Some(WorkflowType { name: "test".into() }),
        task_queue: Some(queue(id)),
        ..StartChildWorkflowExecutionCommandAttributes::default()
    };
    command(CommandType::StartChildWorkflowExecution, Attributes::StartChildWorkflowExecutionCommandAttributes(child))
}

pub(crate) fn complete() -> Command {
    complete_with(Payloads::default())
}

pub(crate) fn complete_with(result: Payloads) -> Command {
    let result = (!result.payloads.is_empty()).then_some(result);
    let complete = CompleteWorkflowExecutionCommandAttributes { result };
    command(CommandType::CompleteWorkflowExecution, Attributes::CompleteWorkflowExecutionCommandAttributes(complete))
}

/// Continues as new on the workflow's own task queue.
pub(crate) fn continue_as_new(id: &str) -> Command {
    let next = ContinueAsNewWorkflowExecutionCommandAttributes {
        workflow_type: Some(WorkflowType { name: "test".into() }),
        task_queue: Some(queue(id)),
        ..ContinueAsNewWorkflowExecutionCommandAttributes::default()
    };
    command(
        CommandType::ContinueAsNewWorkflowExecution,
        Attributes::ContinueAsNewWorkflowExecutionCommandAttributes(next),
    )
}
