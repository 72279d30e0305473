//! A run, as far as the protocol needs it: the events that its worker has not seen, and whether a task is due.

use std::{sync::Mutex, time::SystemTime};

use temporalio_client::tonic::Status;
use temporalio_protos::temporal::api::{
    command::v1::{ScheduleActivityTaskCommandAttributes, command::Attributes as Command},
    common::v1::{Payloads, WorkflowExecution},
    enums::v1::TaskQueueKind,
    failure::v1::Failure,
    history::v1::{
        ActivityTaskCompletedEventAttributes, ActivityTaskScheduledEventAttributes, ActivityTaskStartedEventAttributes,
        History, HistoryEvent, WorkflowExecutionCompletedEventAttributes, WorkflowExecutionFailedEventAttributes,
        WorkflowExecutionSignaledEventAttributes, WorkflowExecutionStartedEventAttributes,
        WorkflowTaskCompletedEventAttributes, WorkflowTaskScheduledEventAttributes, WorkflowTaskStartedEventAttributes,
        history_event::Attributes,
    },
    taskqueue::v1::TaskQueue,
    workflowservice::v1::{
        PollActivityTaskQueueResponse, PollWorkflowTaskQueueResponse, RespondWorkflowTaskCompletedRequest,
        RespondWorkflowTaskCompletedResponse, StartWorkflowExecutionRequest,
    },
};
use tokio::sync::watch;

use crate::{
    queues::held,
    service::{NAMESPACE, TASK_TIMEOUT},
};

pub(crate) struct Run {
    pub(crate) id: String,
    workflow_id: String,
    workflow_type: String,
    task_queue: String,
    state: Mutex<State>,
    /// The event that closed the run.
    pub(crate) closed: watch::Sender<Option<HistoryEvent>>,
}

#[derive(Default)]
struct State {
    last_event: i64,
    /// The event with which the last task of the worker began.
    previous_started: i64,
    /// The events since then.
    events: Vec<HistoryEvent>,
    /// What happened while the worker has a task. It follows the events of that task.
    later: Vec<Happened>,
    task: Task,
    /// The queue of the worker that has the run in its cache.
    sticky: Option<String>,
}

/// The workflow task.
#[derive(Default, Clone, Copy)]
enum Task {
    #[default]
    None,
    Waits {
        scheduled: i64,
    },
    Started {
        scheduled: i64,
        started: i64,
    },
}

/// What happens to a run from outside.
pub(crate) enum Happened {
    ActivityEnded { scheduled: i64, result: Option<Payloads> },
    Signaled { name: String, input: Option<Payloads> },
}

/// What follows from a completed task.
#[derive(Default)]
pub(crate) struct Completed {
    pub(crate) response: RespondWorkflowTaskCompletedResponse,
    /// Activities that are not in the response, with their queues.
    pub(crate) activities: Vec<(String, PollActivityTaskQueueResponse)>,
    /// The queue for the next task, if there is one and it is not in the response.
    pub(crate) due: Option<String>,
}

impl Run {
    /// A run whose first task is due.
    pub(crate) fn start(id: String, request: StartWorkflowExecutionRequest) -> Self {
        let run = Self {
            id,
            workflow_id: request.workflow_id,
            workflow_type: request.workflow_type.clone().unwrap_or_default().name,
            task_queue: request.task_queue.clone().unwrap_or_default().name,
            state: Mutex::default(),
            closed: watch::Sender::new(None),
        };
        let started = WorkflowExecutionStartedEventAttributes {
            workflow_type: request.workflow_type,
            task_queue: request.task_queue,
            input: request.input,
            workflow_task_timeout: TASK_TIMEOUT.try_into().ok(),
            original_execution_run_id: run.id.clone(),
            first_execution_run_id: run.id.clone(),
            workflow_id: run.workflow_id.clone(),
            attempt: 1,
            ..Default::default()
        };
        let mut state = held(&run.state);
        state.write(Attributes::WorkflowExecutionStartedEventAttributes(started));
        run.schedule(&mut state);
        drop(state);
        run
    }

    /// The queue on which the next task waits.
    pub(crate) fn queue(&self) -> String {
        self.queue_in(&held(&self.state))
    }

    fn queue_in(&self, state: &State) -> String {
        state.sticky.as_ref().unwrap_or(&self.task_queue).clone()
    }

    fn schedule(&self, state: &mut State) {
        let scheduled = WorkflowTaskScheduledEventAttributes {
            task_queue: Some(normal(&self.task_queue)),
            start_to_close_timeout: TASK_TIMEOUT.try_into().ok(),
            attempt: 1,
        };
        let scheduled = state.write(Attributes::WorkflowTaskScheduledEventAttributes(scheduled));
        state.task = Task::Waits { scheduled };
    }

    /// Gives the task that waits to a worker.
    pub(crate) fn take_task(&self) -> Option<PollWorkflowTaskQueueResponse> {
        self.take_task_in(&mut held(&self.state))
    }

    fn take_task_in(&self, state: &mut State) -> Option<PollWorkflowTaskQueueResponse> {
        let Task::Waits { scheduled } = state.task else { return None };
        let attributes = WorkflowTaskStartedEventAttributes { scheduled_event_id: scheduled, ..Default::default() };
        let started = state.write(Attributes::WorkflowTaskStartedEventAttributes(attributes));
        state.task = Task::Started { scheduled, started };
        let now = Some(SystemTime::now().into());
        Some(PollWorkflowTaskQueueResponse {
            task_token: self.workflow_id.clone().into_bytes(),
            workflow_execution: Some(self.execution()),
            workflow_type: Some(self.workflow_type.clone().into()),
            workflow_execution_task_queue: Some(normal(&self.task_queue)),
            previous_started_event_id: state.previous_started,
            started_event_id: started,
            attempt: 1,
            history: Some(History { events: std::mem::take(&mut state.events) }),
            scheduled_time: now,
            started_time: now,
            ..Default::default()
        })
    }

    fn execution(&self) -> WorkflowExecution {
        WorkflowExecution { workflow_id: self.workflow_id.clone(), run_id: self.id.clone() }
    }

    pub(crate) fn complete_task(&self, request: RespondWorkflowTaskCompletedRequest) -> Result<Completed, Status> {
        let mut state = held(&self.state);
        let Task::Started { scheduled, started } = state.task else {
            return Err(Status::not_found("the task is not known"));
        };
        state.task = Task::None;
        state.previous_started = started;
        state.sticky = request.sticky_attributes.and_then(|sticky| sticky.worker_task_queue).map(|queue| queue.name);
        let completed =
            state.write(Attributes::WorkflowTaskCompletedEventAttributes(WorkflowTaskCompletedEventAttributes {
                scheduled_event_id: scheduled,
                started_event_id: started,
                ..Default::default()
            }));
        let mut done = Completed::default();
        for command in request.commands.into_iter().filter_map(|command| command.attributes) {
            match command {
                Command::ScheduleActivityTaskCommandAttributes(command) => {
                    self.schedule_activity(&mut state, &mut done, completed, command);
                }
                Command::CompleteWorkflowExecutionCommandAttributes(command) => {
                    let result = command.result;
                    let event = WorkflowExecutionCompletedEventAttributes { result, ..Default::default() };
                    self.close(&mut state, Attributes::WorkflowExecutionCompletedEventAttributes(event));
                    return Ok(done);
                }
                Command::FailWorkflowExecutionCommandAttributes(command) => {
                    self.close(&mut state, failed(command.failure));
                    return Ok(done);
                }
                _ => return Err(Status::unimplemented("this service does not know the command")),
            }
        }
        let later = std::mem::take(&mut state.later);
        if !later.is_empty() || request.force_create_new_workflow_task {
            later.into_iter().for_each(|happened| state.note(happened));
            self.schedule(&mut state);
            if request.return_new_workflow_task {
                done.response.workflow_task = self.take_task_in(&mut state);
            } else {
                done.due = Some(self.queue_in(&state));
            }
        }
        Ok(done)
    }

    fn schedule_activity(
        &self,
        state: &mut State,
        done: &mut Completed,
        completed: i64,
        command: ScheduleActivityTaskCommandAttributes,
    ) {
        let now = Some(SystemTime::now().into());
        let queue = command.task_queue.clone().unwrap_or_default().name;
        let mut task = PollActivityTaskQueueResponse {
            workflow_namespace: NAMESPACE.to_owned(),
            workflow_type: Some(self.workflow_type.clone().into()),
            workflow_execution: Some(self.execution()),
            activity_type: command.activity_type.clone(),
            activity_id: command.activity_id.clone(),
            header: command.header.clone(),
            input: command.input.clone(),
            scheduled_time: now,
            current_attempt_scheduled_time: now,
            started_time: now,
            attempt: 1,
            schedule_to_close_timeout: command.schedule_to_close_timeout,
            start_to_close_timeout: command.start_to_close_timeout,
            heartbeat_timeout: command.heartbeat_timeout,
            retry_policy: command.retry_policy.clone(),
            ..Default::default()
        };
        let event = ActivityTaskScheduledEventAttributes {
            activity_id: command.activity_id,
            activity_type: command.activity_type,
            task_queue: command.task_queue,
            header: command.header,
            input: command.input,
            schedule_to_close_timeout: command.schedule_to_close_timeout,
            schedule_to_start_timeout: command.schedule_to_start_timeout,
            start_to_close_timeout: command.start_to_close_timeout,
            heartbeat_timeout: command.heartbeat_timeout,
            workflow_task_completed_event_id: completed,
            retry_policy: command.retry_policy,
            ..Default::default()
        };
        let scheduled = state.write(Attributes::ActivityTaskScheduledEventAttributes(event));
        task.task_token = activity_token(scheduled, &self.workflow_id);
        match command.request_eager_execution {
            true => done.response.activity_tasks.push(task),
            false => done.activities.push((queue, task)),
        }
    }

    /// Returns the queue for the next task if it became due.
    pub(crate) fn happens(&self, happened: Happened) -> Option<String> {
        let mut state = held(&self.state);
        match state.task {
            Task::Started { .. } => state.later.push(happened),
            Task::Waits { .. } => state.note(happened),
            Task::None if self.closed.borrow().is_none() => {
                state.note(happened);
                self.schedule(&mut state);
                return Some(self.queue_in(&state));
            }
            Task::None => {}
        }
        None
    }

    /// Ends the run: nothing in it is supposed to fail.
    pub(crate) fn fail(&self, failure: Option<Failure>) {
        self.close(&mut held(&self.state), failed(failure));
    }

    fn close(&self, state: &mut State, attributes: Attributes) {
        state.write(attributes);
        self.closed.send_replace(state.events.pop());
        *state = State::default();
    }
}

impl State {
    fn write(&mut self, attributes: Attributes) -> i64 {
        self.last_event += 1;
        self.events.push(HistoryEvent {
            event_id: self.last_event,
            event_time: Some(SystemTime::now().into()),
            event_type: attributes.event_type() as i32,
            attributes: Some(attributes),
            ..Default::default()
        });
        self.last_event
    }

    fn note(&mut self, happened: Happened) {
        match happened {
            Happened::ActivityEnded { scheduled, result } => {
                let started =
                    self.write(Attributes::ActivityTaskStartedEventAttributes(ActivityTaskStartedEventAttributes {
                        scheduled_event_id: scheduled,
                        attempt: 1,
                        ..Default::default()
                    }));
                self.write(Attributes::ActivityTaskCompletedEventAttributes(ActivityTaskCompletedEventAttributes {
                    result,
                    scheduled_event_id: scheduled,
                    started_event_id: started,
                    ..Default::default()
                }));
            }
            Happened::Signaled { name: signal_name, input } => {
                let event = WorkflowExecutionSignaledEventAttributes { signal_name, input, ..Default::default() };
                self.write(Attributes::WorkflowExecutionSignaledEventAttributes(event));
            }
        }
    }
}

fn failed(failure: Option<Failure>) -> Attributes {
    let event = WorkflowExecutionFailedEventAttributes { failure, ..Default::default() };
    Attributes::WorkflowExecutionFailedEventAttributes(event)
}

fn normal(name: &str) -> TaskQueue {
    TaskQueue { name: name.to_owned(), kind: TaskQueueKind::Normal as i32, ..Default::default() }
}

fn activity_token(scheduled: i64, workflow_id: &str) -> Vec<u8> {
    format!("{scheduled}/{workflow_id}").into_bytes()
}

/// The event that scheduled the activity, and its workflow.
pub(crate) fn read_activity_token(token: &[u8]) -> Option<(i64, &str)> {
    let (scheduled, workflow_id) = std::str::from_utf8(token).ok()?.split_once('/')?;
    Some((scheduled.parse().ok()?, workflow_id))
}

#[cfg(test)]
mod tests;
