//! Calls that the server works on as tasks (the extension `io.modelcontextprotocol/tasks` of 2026-07-28).
//!
//! The round that gets a task ends at once, so that the run keeps the task's id before anything waits. Later rounds read
//! the task until it ends or asks for something; after a crash another worker goes on with it.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use rmcp::{
    RoleClient,
    model::{
        CallToolResult, CancelTaskParams, ClientRequest, CreateTaskResult, DetailedTask, ErrorData, GetTaskParams,
        InputRequests, JsonObject, TaskPayload, UpdateTaskParams, UpdateTaskRequest,
    },
    service::Peer,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{sleep, timeout, timeout_at};
use windlass_core::{
    canonical::CanonicalJson,
    envelope::{Continuation, InputRequest, Resumption, ToolErrorKind},
};

use super::{
    connection::Connection,
    failure,
    input::{self, Defaults},
    result,
};
use crate::{CallContext, Progress, ToolFailure, ToolReply};

/// The first element of the state. Builds that know no tasks take only objects, and must not call the tool again.
const TASK: &str = "task";
/// What is left of a round's time for its return.
const MARGIN: Duration = Duration::from_secs(2);
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two readings, if the server does not say.
const PAUSE: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long readings may fail before the round does. Reading changes nothing, so a server that restarts is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
const MAX_REPORT_CHARS: usize = 1024;

/// What the run keeps of a task between the rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task {
    id: String,
    /// The keys of all questions so far. A server may show a question for a while after it got the answer.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    asked: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Defaults::is_empty")]
    defaults: Defaults,
}

/// A call has become a task.
pub(super) fn created(created: CreateTaskResult) -> Result<ToolReply, ToolFailure> {
    let task = Task { id: created.task.task_id, asked: BTreeSet::new(), defaults: Defaults::new() };
    task.go_on(Vec::new()).map(ToolReply::Continue)
}

impl Task {
    /// The task of a later round, if the call has become one.
    pub(super) fn of(resumption: Option<&Resumption>) -> Option<Self> {
        let (tag, task): (String, Self) = resumption?.state.decode().ok()?;
        (tag == TASK).then_some(task)
    }

    /// One round. It ends before the deadline: with the task's end, with its questions, or to go on in another.
    pub(super) async fn round(
        mut self,
        connection: &Connection,
        context: &CallContext,
    ) -> Result<ToolReply, ToolFailure> {
        let _cancels = CancelWhenDropped { peer: connection.peer.clone(), id: self.id.clone(), context };
        let mut readings = Readings::default();
        let work = async {
            self.answer(connection, context.resumption.as_ref()).await?;
            self.follow(connection, context, &mut readings).await
        };
        let outcome = match context.deadline {
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                let end = Instant::now() + left.saturating_sub(MARGIN).max(left / 2);
                timeout_at(end.into(), work).await
            }
            None => Ok(work.await),
        };
        match outcome {
            Ok(outcome) => outcome,
            // A round in which the server never answered is a failed one, so that its retries are counted.
            Err(_) if !readings.any => Err(readings.failed.unwrap_or_else(failure::timed_out)),
            Err(_) => self.go_on(Vec::new()).map(ToolReply::Continue),
        }
    }

    /// Passes on what a person answered. The keys are unique in the task, so a repeat changes nothing.
    async fn answer(&mut self, connection: &Connection, resumption: Option<&Resumption>) -> Result<(), ToolFailure> {
        let responses = resumption.map(|resumption| &resumption.responses).filter(|responses| !responses.is_empty());
        let Some(responses) = responses else { return Ok(()) };
        let defaults = std::mem::take(&mut self.defaults);
        let answers = responses
            .iter()
            .map(|(key, response)| (key.clone(), input::answer_value(&input::completed(&defaults, key, response))));
        let update = UpdateTaskRequest::new(UpdateTaskParams::new(self.id.clone(), answers.collect()));
        // Any result acknowledges it: the library's own method takes only one without further fields.
        let sent = connection.peer.send_request(ClientRequest::UpdateTaskRequest(update)).await;
        sent.map(drop).map_err(|error| failure::of_request(&error))
    }

    async fn follow(
        &self,
        connection: &Connection,
        context: &CallContext,
        readings: &mut Readings,
    ) -> Result<ToolReply, ToolFailure> {
        loop {
            let mut pause = PAUSE;
            match connection.peer.get_task(GetTaskParams::new(self.id.clone())).await {
                Ok(read) => {
                    (readings.any, readings.failing_since) = (true, None);
                    let DetailedTask { task, payload, .. } = read.task;
                    readings.report(task.status_message, context);
                    pause = task.poll_interval_ms.map_or(PAUSE, Duration::from_millis);
                    match self.settled(payload) {
                        Ok(None) => {}
                        Ok(Some(reply)) => return Ok(reply),
                        Err(Unsettled { failure, abandoned }) => {
                            if abandoned {
                                cancel(&connection.peer, &self.id).await;
                            }
                            return Err(failure);
                        }
                    }
                }
                Err(error) => {
                    let failed = failure::of_request(&error);
                    let since = *readings.failing_since.get_or_insert_with(Instant::now);
                    // A connection that has ended is opened again by the next attempt.
                    if !failed.retryable || !connection.is_open() || since.elapsed() > PATIENCE {
                        return Err(failed);
                    }
                    readings.failed = Some(failed);
                }
            }
            sleep(pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
        }
    }

    /// How the call goes on with the task; `None` if the task works.
    fn settled(&self, payload: TaskPayload) -> Result<Option<ToolReply>, Unsettled> {
        match payload {
            TaskPayload::Working => Ok(None),
            TaskPayload::InputRequired { input_requests } => {
                let abandoned = |failure| Unsettled { failure, abandoned: true };
                self.ask(input_requests).map_err(abandoned)
            }
            TaskPayload::Completed { result } => {
                let result: Result<CallToolResult, _> = serde_json::from_value(Value::Object(result));
                let unreadable = |_| failure::failed("the result of the MCP server's task is no result of a tool");
                Ok(Some(ToolReply::Done(result.map_err(unreadable).and_then(result::success)?)))
            }
            TaskPayload::Failed { error } => Err(failed(error).into()),
            TaskPayload::Cancelled => Err(failure::failed("the MCP server cancelled the task").into()),
            _ => Err(failure::failed("the MCP server's task is in a state that is not known").into()),
        }
    }

    /// The questions that a person was not asked yet; `None` if there are none.
    fn ask(&self, requests: InputRequests) -> Result<Option<ToolReply>, ToolFailure> {
        let mut next = self.clone();
        let new = requests.into_iter().filter(|(key, _)| next.asked.insert(key.clone()));
        let inputs = new.map(|(key, request)| input::of_server(key, request)).collect::<Result<Vec<_>, _>>()?;
        if inputs.is_empty() {
            return Ok(None);
        }
        next.defaults = input::defaults_of(&inputs);
        next.go_on(inputs).map(|continuation| Some(ToolReply::Continue(continuation)))
    }

    fn go_on(&self, inputs: Vec<InputRequest>) -> Result<Continuation, ToolFailure> {
        let state = CanonicalJson::of(&(TASK, self))
            .map_err(|error| ToolFailure::new(ToolErrorKind::Internal, error.to_string()))?;
        input::within_limit(Continuation { state, inputs, repeatable: true })
    }
}

/// What a round has read so far.
#[derive(Default)]
struct Readings {
    any: bool,
    /// Since the last one that succeeded.
    failing_since: Option<Instant>,
    failed: Option<ToolFailure>,
    reported: Option<String>,
}

impl Readings {
    fn report(&mut self, message: Option<String>, context: &CallContext) {
        if message != self.reported
            && let Some(text) = &message
        {
            context.progress.report(Progress::message(text.chars().take(MAX_REPORT_CHARS).collect::<String>()));
        }
        self.reported = message;
    }
}

/// A task without a result.
struct Unsettled {
    failure: ToolFailure,
    /// The task still waits at the server.
    abandoned: bool,
}

impl From<ToolFailure> for Unsettled {
    fn from(failure: ToolFailure) -> Self {
        Self { failure, abandoned: false }
    }
}

fn failed(error: JsonObject) -> ToolFailure {
    match serde_json::from_value::<ErrorData>(Value::Object(error)) {
        Ok(error) => failure::failed(format!("the MCP server's task failed ({}): {}", error.code.0, error.message)),
        Err(_) => failure::failed("the MCP server's task failed and did not say why"),
    }
}

async fn cancel(peer: &Peer<RoleClient>, id: &str) {
    let _ = timeout(CANCEL_TIMEOUT, peer.cancel_task(CancelTaskParams::new(id))).await;
}

/// Cancels the task if its round is dropped because the call was cancelled.
struct CancelWhenDropped<'a> {
    peer: Peer<RoleClient>,
    id: String,
    context: &'a CallContext,
}

impl Drop for CancelWhenDropped<'_> {
    fn drop(&mut self) {
        // When a worker shuts down, another goes on with the task.
        let cancelled = self.context.cancel.is_cancelled() && !self.context.draining.is_cancelled();
        if cancelled && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (peer, id) = (self.peer.clone(), std::mem::take(&mut self.id));
            runtime.spawn(async move { cancel(&peer, &id).await });
        }
    }
}
