//! Workflow task requests: polls, completions, failures.

use std::{sync::Arc, time::Duration};

use temporalio_protos::temporal::api::{
    common::v1::{WorkerVersionCapabilities, WorkerVersionStamp, WorkflowExecution, WorkflowType},
    deployment::v1::WorkerDeploymentOptions,
    enums::v1::{TaskQueueKind, VersioningBehavior},
    history::v1::{History, HistoryEvent},
    protocol::v1::Message,
    taskqueue::v1::TaskQueue,
    workflowservice::v1::{
        PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse, RespondWorkflowTaskCompletedRequest,
        RespondWorkflowTaskCompletedResponse, RespondWorkflowTaskFailedRequest, RespondWorkflowTaskFailedResponse,
    },
};
use tokio::time::Instant;
use windlass_sqlite::Ack;

use super::{activities::activity_response, checks, decisions, history::PAGE_EVENTS};
use crate::{
    core::{Core, Target, TaskQueue as Polling},
    deployments::{Place, Routing, Version, names},
    persist,
    queues::{Kind, QueueKey, Task},
    registry::RunKey,
    run::{Polled, Run, StartedTask, Undelivered, Worker, queries::PendingQuery, task_not_found},
    service_error::ServiceError,
    time::timestamp,
    token::{HistoryToken, TaskToken},
};
use prost::Message as _;

/// How long a poll waits if the request has no deadline.
const LONGEST_POLL: Duration = Duration::from_secs(60);
/// Time for the response to reach the client before its deadline.
const TAIL_ROOM: Duration = Duration::from_secs(1);
const SHORTEST_POLL: Duration = Duration::from_secs(2);

/// A task outside of the run's lock, before its history was read.
struct Taken {
    response: PollWorkflowTaskQueueResponse,
    number: i64,
    /// History has to be read from the start, up to this event.
    read_until: Option<i64>,
    unwritten: Vec<HistoryEvent>,
}

/// The deadline of a poll.
pub(super) fn poll_deadline(timeout: Option<Duration>) -> Result<Instant, ServiceError> {
    let wait = match timeout {
        Some(timeout) if timeout < SHORTEST_POLL => {
            return Err(ServiceError::FailedPrecondition("Context timeout is too short.".to_owned()));
        }
        Some(timeout) => (timeout - TAIL_ROOM).min(LONGEST_POLL),
        None => LONGEST_POLL,
    };
    Ok(Instant::now() + wait)
}

impl Core {
    #[allow(deprecated, reason = "unversioned workers still send their build here")]
    pub(super) async fn poll_workflow_task(
        self: &Arc<Self>,
        request: PollWorkflowTaskQueueRequest,
        timeout: Option<Duration>,
        local: bool,
    ) -> Result<PollWorkflowTaskQueueResponse, ServiceError> {
        let deadline = poll_deadline(timeout)?;
        let options = request.deployment_options.as_ref();
        let mut key =
            self.polled_queue(&request.namespace, request.task_queue.as_ref(), &request.identity, Kind::Workflow)?;
        names::check_worker(options, request.task_queue.as_ref(), self.limits.id_length)?;
        let sticky = request.task_queue.as_ref().is_some_and(|queue| queue.kind() == TaskQueueKind::Sticky);
        let version = Version::of_worker(options);
        if !sticky {
            self.register_worker(&mut key, version.as_ref()).await?;
        }
        let build = build(request.worker_version_capabilities.as_ref());
        while let Some(task) = self.next_task(&key, &request.identity, options, deadline).await {
            let response = match &task {
                Task::Workflow { run, scheduled_id } => {
                    let worker = Worker::new(&request.identity, build.as_ref());
                    self.take_task(run, *scheduled_id, &key, (sticky, version.as_ref()), worker, local).await
                }
                Task::Query(query) => self.take_query(query, &key, sticky).await,
                Task::Activity { .. } | Task::Nexus { .. } => Ok(None),
            };
            match response {
                Ok(Some(response)) => return Ok(response),
                Ok(None) => {}
                Err(error) => {
                    // Another worker may get it.
                    self.queues.offer_stored(&key, task);
                    return Err(error);
                }
            }
        }
        Ok(PollWorkflowTaskQueueResponse::default())
    }

    pub(super) fn polled_queue(
        &self,
        namespace: &str,
        queue: Option<&TaskQueue>,
        identity: &str,
        kind: Kind,
    ) -> Result<QueueKey, ServiceError> {
        if identity.len() > self.limits.id_length {
            return Err(ServiceError::invalid("Identity length exceeds limit."));
        }
        self.read_namespaces().named(namespace)?;
        let name = checks::queue(queue, &self.limits)?;
        Ok(QueueKey { namespace: namespace.into(), name, kind, version: None })
    }

    /// The next task of a queue, or `None` at the deadline.
    pub(super) async fn next_task(
        self: &Arc<Self>,
        key: &QueueKey,
        identity: &str,
        options: Option<&WorkerDeploymentOptions>,
        deadline: Instant,
    ) -> Option<Task> {
        let mut waiting = match self.queues.poll(key, identity, options, self.now()) {
            Ok(task) => return Some(task),
            Err(waiting) => waiting,
        };
        if self.queues.take_spilled(key)
            && let Err(error) = self.dispatch_ready_runs()
        {
            tracing::warn!(%error, "tasks could not be loaded from disk; retrying at a later poll");
        }
        tokio::time::timeout_at(deadline, waiting.task()).await.ok().flatten()
    }

    /// Starts a task for a worker. `None` if the task is stale.
    async fn take_task(
        self: &Arc<Self>,
        run: &RunKey,
        scheduled_id: i64,
        polled: &QueueKey,
        (sticky, version): (bool, Option<&Version>),
        worker: Worker<'_>,
        local: bool,
    ) -> Result<Option<PollWorkflowTaskQueueResponse>, ServiceError> {
        let target = Target::of(run);
        let taken = self.with_run_acked(&target, Ack::Relaxed, |found, env| {
            let here = Polling { name: &polled.name, kind: Kind::Workflow, sticky };
            let routing = self.routing(&found.state, here);
            if !sticky && goes_to(routing.as_ref()) != polled.version.as_ref() {
                let elsewhere = self.queue_of(run, &found.state, &polled.name, Kind::Workflow);
                self.queues.offer_stored(&elsewhere, Task::Workflow { run: run.clone(), scheduled_id });
                return Ok(None);
            }
            let told = routing.map(|it| Polled {
                version: version.cloned(),
                revision: it.revision,
                target: it.target,
                target_revision: it.target_revision,
            });
            let told = told.unwrap_or_else(|| Polled { version: version.cloned(), ..Polled::default() });
            let run = found;
            if sticky && run.memory.sticky.is_none() && run.task_comes_back() {
                // The worker has evicted the run, so the task is lost until its timeout.
                return Ok(None);
            }
            let Some(task) = run.start_task_at(env, scheduled_id, worker, &(env.new_id)(), &told) else {
                return Ok(None);
            };
            run.set_task_incarnation(self.incarnation_for(local));
            let start = Undelivered { scheduled_id, request_id: task.task.request_id.clone() };
            let messages = run.update_messages(task.task.started_id, true);
            let cached = sticky && run.memory.sticky.is_some();
            if local && cached {
                run.defer_changes();
            }
            Ok(Some((taken(run, task, messages, cached), start)))
        });
        let done = match taken {
            Ok(done) => done,
            Err(ServiceError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        // A worker with the run in its cache gets the events from memory. For another one, history is read after it is
        // committed.
        match &done.value {
            Some((taken, _)) if taken.read_until.is_some() => {}
            _ => return Ok(done.value().map(|(taken, _)| taken.response)),
        }
        let Some((taken, start)) = done.acknowledged().await? else { return Ok(None) };
        let told = self.with_history(taken).map(Some);
        if told.is_err() {
            self.hold_for_another(&target, start);
        }
        told
    }

    /// The task was started, but its worker did not get it. Without this, it would be lost until its timeout.
    fn hold_for_another(self: &Arc<Self>, target: &Target, undelivered: Undelivered) {
        let held = self.with_run(target, |run, _| {
            run.memory.undelivered = Some(undelivered);
            Ok(())
        });
        if let Err(error) = held {
            tracing::debug!(?error, "a task that its worker did not get is dispatched again after its timeout");
        }
    }

    /// Adds the first page of history to a task.
    fn with_history(&self, taken: Taken) -> Result<PollWorkflowTaskQueueResponse, ServiceError> {
        let Taken { mut response, number, read_until, unwritten } = taken;
        let Some(until) = read_until else { return Ok(response) };
        let mut events = self.read(|sql| persist::events_after(sql, number, 0, PAGE_EVENTS))?;
        events.retain(|event| event.event_id <= until);
        let reached = events.last().map_or(0, |event| event.event_id);
        if reached < until {
            let run_id = response.workflow_execution.clone().unwrap_or_default().run_id;
            let token = HistoryToken { run_id, position: reached, until, unwritten };
            response.next_page_token = token.encode_to_vec();
        } else {
            events.extend(unwritten);
        }
        response.history = Some(History { events });
        Ok(response)
    }

    /// Gives a query task to a worker, with the history it needs.
    async fn take_query(
        self: &Arc<Self>,
        query: &Arc<PendingQuery>,
        polled: &QueueKey,
        sticky: bool,
    ) -> Result<Option<PollWorkflowTaskQueueResponse>, ServiceError> {
        if !query.is_wanted() {
            return Ok(None);
        }
        let target = Target::of(&query.run);
        let taken = self.with_run(&target, |run, _| {
            let elsewhere = self.queue_of(&query.run, &run.state, &polled.name, Kind::Workflow);
            if !sticky && elsewhere.version != polled.version {
                self.queues.offer_unstored(&elsewhere, Task::Query(Arc::clone(query)));
                return Ok(None);
            }
            let token = TaskToken {
                namespace: target.namespace.clone(),
                workflow_id: target.workflow_id.clone(),
                run_id: run.state.run_id.clone(),
                query_id: query.id.clone(),
                ..TaskToken::default()
            };
            let response = PollWorkflowTaskQueueResponse {
                task_token: token.encode_to_vec(),
                query: Some(query.query.clone()),
                history: Some(History::default()),
                previous_started_event_id: run.state.previous_started_id,
                attempt: 1,
                ..about(run)
            };
            let read_until = (!sticky).then_some(run.state.next_event_id - 1);
            Ok(Some(Taken { response, number: run.number, read_until, unwritten: Vec::new() }))
        });
        match taken {
            Ok(done) => done.value().map(|taken| self.with_history(taken)).transpose(),
            Err(ServiceError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn complete_workflow_task(
        self: &Arc<Self>,
        mut request: RespondWorkflowTaskCompletedRequest,
        local: bool,
    ) -> Result<RespondWorkflowTaskCompletedResponse, ServiceError> {
        let token = TaskToken::read(&request.task_token)?;
        if request.intermediate_page || request.page_number > 0 {
            return Err(ServiceError::FailedPrecondition(format!(
                "workflow task completion pagination is disabled for this namespace {}",
                token.namespace
            )));
        }
        names::check_worker(request.deployment_options.as_ref(), None, self.limits.id_length)?;
        let target = token.target();
        let results = std::mem::take(&mut request.query_results);
        let beats = request.force_create_new_workflow_task;
        let ack = if local && decisions::may_be_made_again(&request) { Ack::Relaxed } else { Ack::Durable };
        let done = self.with_run_acked(&target, ack, |run, env| {
            let held = (token.scheduled_id, token.started_id, token.attempt);
            if let Err(error) = must_be_this_start(run, &token).and_then(|()| run.check_started_task(held)) {
                run.refuse_stale_answer(env, token.scheduled_id);
                return Ok((Some(error), None, Vec::new(), 0));
            }
            if request.versioning_behavior() != VersioningBehavior::Unspecified
                && Version::of_worker(request.deployment_options.as_ref()).is_none()
            {
                let text = "versioning behavior cannot be specified without deployment options being set with \
                            versioned mode";
                return Ok((Some(ServiceError::invalid(text)), None, Vec::new(), 0));
            }
            // Tasks in the response are held by the same worker, local or remote.
            let incarnation = run.state.task.as_ref().map_or(0, |task| task.incarnation);
            let number = run.number;
            let mut beginning = || self.beginning(number);
            let completion = run.complete_task(env, held, request, &mut beginning)?;
            if completion.refused.is_none() {
                run.answer_queries(results);
            }
            if completion.next.is_some() {
                run.set_task_incarnation(incarnation);
            }
            completion
                .eager
                .iter()
                .for_each(|activity| run.set_activity_incarnation(activity.scheduled_id, incarnation));
            // The worker has the run in its cache.
            let next = completion.next.map(|task| {
                // A worker that asks for the next task is still processing the updates it has.
                let messages = run.update_messages(task.task.started_id, !beats);
                taken(run, task, messages, true)
            });
            let activities: Vec<_> =
                completion.eager.into_iter().map(|activity| activity_response(run, &activity)).collect();
            Ok((completion.refused, next, activities, completion.reset_history_event_id))
        })?;
        let (refused, next, activity_tasks, reset_history_event_id) = done.acknowledged().await?;
        if let Some(error) = refused {
            return Err(error);
        }
        let workflow_task = next.map(|taken| self.with_history(taken)).transpose()?;
        Ok(RespondWorkflowTaskCompletedResponse { workflow_task, activity_tasks, reset_history_event_id })
    }

    pub(super) async fn fail_workflow_task(
        self: &Arc<Self>,
        request: RespondWorkflowTaskFailedRequest,
    ) -> Result<RespondWorkflowTaskFailedResponse, ServiceError> {
        let token = TaskToken::read(&request.task_token)?;
        let done = self.with_run(&token.target(), |run, env| {
            run.must_run()?;
            let held = (token.scheduled_id, token.started_id, token.attempt);
            if let Err(error) = must_be_this_start(run, &token).and_then(|()| run.check_started_task(held)) {
                // A completion of a stale task is rejected and changes nothing.
                return Ok(Err(error));
            }
            run.task_failed(env, held, request).map(Ok)
        })?;
        done.acknowledged().await??;
        Ok(RespondWorkflowTaskFailedResponse {})
    }
}

/// After a crash, a task may have been started again under the same number with other events. Only the worker of the
/// last start may complete it.
fn must_be_this_start(run: &Run, token: &TaskToken) -> Result<(), ServiceError> {
    match &run.state.task {
        Some(task) if task.started_id != 0 && task.started_time != token.started_time => Err(task_not_found()),
        _ => Ok(()),
    }
}

/// The version whose workers a task is for, if it is not for a sticky one.
pub(super) fn goes_to(routing: Option<&Routing>) -> Option<&Version> {
    match &routing?.place {
        Place::Workers(version) => version.as_ref(),
        Place::Sticky | Place::NotSticky => None,
    }
}

/// The build that a worker reports.
fn build(capabilities: Option<&WorkerVersionCapabilities>) -> Option<WorkerVersionStamp> {
    let WorkerVersionCapabilities { build_id, use_versioning, .. } = capabilities?;
    (!build_id.is_empty()).then(|| WorkerVersionStamp { build_id: build_id.clone(), use_versioning: *use_versioning })
}

/// The response fields that describe the run.
fn about(run: &Run) -> PollWorkflowTaskQueueResponse {
    PollWorkflowTaskQueueResponse {
        workflow_execution: Some(WorkflowExecution {
            workflow_id: run.state.workflow_id.clone(),
            run_id: run.state.run_id.clone(),
        }),
        workflow_type: Some(WorkflowType { name: run.state.workflow_type.clone() }),
        workflow_execution_task_queue: Some(TaskQueue {
            name: run.state.task_queue.clone(),
            kind: TaskQueueKind::Normal as i32,
            ..TaskQueue::default()
        }),
        ..PollWorkflowTaskQueueResponse::default()
    }
}

pub(super) fn task_response(
    run: &Run,
    started: &StartedTask,
    events: Vec<HistoryEvent>,
    messages: Vec<Message>,
) -> PollWorkflowTaskQueueResponse {
    let task = &started.task;
    let token = TaskToken {
        namespace: run.state.namespace.clone(),
        workflow_id: run.state.workflow_id.clone(),
        run_id: run.state.run_id.clone(),
        scheduled_id: task.scheduled_id,
        started_id: task.started_id,
        attempt: task.attempt,
        started_time: task.started_time,
        ..TaskToken::default()
    };
    let queries = run.memory.queries.iter().filter(|query| query.is_wanted());
    PollWorkflowTaskQueueResponse {
        task_token: token.encode_to_vec(),
        previous_started_event_id: run.state.previous_started_id,
        started_event_id: task.started_id,
        attempt: task.attempt,
        history: Some(History { events }),
        scheduled_time: Some(timestamp(task.scheduled_time)),
        started_time: Some(timestamp(task.started_time)),
        queries: queries.map(|query| (query.id.clone(), query.query.clone())).collect(),
        messages,
        ..about(run)
    }
}

fn taken(run: &Run, started: StartedTask, messages: Vec<Message>, cached: bool) -> Taken {
    let number = run.number;
    if cached {
        // Events of this operation are not in the tail yet.
        let mut events = run.memory.tail.clone();
        events.extend(run.written_events());
        events.retain(|event| event.event_id > run.state.previous_started_id);
        events.extend(started.unwritten.iter().cloned());
        let response = task_response(run, &started, events, messages);
        return Taken { response, number, read_until: None, unwritten: Vec::new() };
    }
    let until = run.state.next_event_id - 1;
    let response = task_response(run, &started, Vec::new(), messages);
    Taken { response, number, read_until: Some(until), unwritten: started.unwritten }
}
