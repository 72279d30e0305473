//! Completion and failure of workflow tasks by a worker.

use std::collections::BTreeMap;

use temporalio_protos::temporal::api::{
    command::v1::Command,
    deployment::v1::WorkerDeploymentVersion,
    enums::v1::{WorkerVersioningMode, WorkflowTaskFailedCause},
    failure::v1::{Failure, ServerFailureInfo, failure::FailureInfo},
    history::v1::{
        WorkflowExecutionStartedEventAttributes, WorkflowTaskCompletedEventAttributes, history_event::Attributes,
    },
    protocol::v1::Message,
    workflowservice::v1::{RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskFailedRequest},
};

use super::{
    Env, Run, RunState, StartedActivity, StartedTask, Sticky,
    commands::{Rejected, cause_name},
    state::WorkflowTask,
    task::{Delivery, Worker},
    updates::AbortReason,
    versioning::Polled,
};
use crate::{service_error::ServiceError, time::span};

/// The request id of a task that is returned with the reply to a completion.
const INLINE_REQUEST: &str = "request-from-RespondWorkflowTaskCompleted";

/// The reply to a completion.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    /// Activities that were started eagerly for this worker.
    pub(crate) eager: Vec<StartedActivity>,
    /// The next task, if the worker asked for it and there is one.
    pub(crate) next: Option<StartedTask>,
    /// The event up to which the worker must reset its history after a speculative task that was dropped.
    pub(crate) reset_history_event_id: i64,
    /// The error for the worker when its commands were rejected. The failed task is stored.
    pub(crate) refused: Option<ServiceError>,
}

/// The state before the commands were applied.
struct Before {
    state: RunState,
    scheduled: BTreeMap<
        i64,
        std::sync::Arc<temporalio_protos::temporal::api::history::v1::ActivityTaskScheduledEventAttributes>,
    >,
    updates: super::updates::Registry,
}

impl Run {
    /// The started task that a token names.
    fn held_task(&self, scheduled_id: i64, started_id: i64, attempt: i32) -> Result<WorkflowTask, ServiceError> {
        let task = self.state.task.as_ref().filter(|task| {
            self.state.is_running()
                && task.started_id != 0
                && task.scheduled_id == scheduled_id
                && task.started_id == started_id
                && task.attempt == attempt
        });
        task.cloned().ok_or_else(task_not_found)
    }

    /// Rejects a completion of a task that is not started or does not exist any more.
    pub(crate) fn check_started_task(&self, token: (i64, i64, i32)) -> Result<(), ServiceError> {
        self.held_task(token.0, token.1, token.2).map(|_| ())
    }

    pub(crate) fn complete_task(
        &mut self,
        env: &Env<'_>,
        token: (i64, i64, i32),
        mut request: RespondWorkflowTaskCompletedRequest,
        beginning: &mut dyn FnMut() -> Option<WorkflowExecutionStartedEventAttributes>,
    ) -> Result<Completion, ServiceError> {
        let task = self.held_task(token.0, token.1, token.2)?;
        let (commands, messages) = (std::mem::take(&mut request.commands), std::mem::take(&mut request.messages));
        let beats = request.force_create_new_workflow_task && commands.is_empty() && messages.is_empty();
        if beats && env.now > task.original_scheduled_time.saturating_add(env.limits.task_heartbeats) {
            self.time_out_started_task(env, task);
            self.memory.sticky = None;
            self.schedule_task(env, Delivery::Queue, env.now);
            let refused = Some(ServiceError::not_found("workflow task heartbeat timeout"));
            return Ok(Completion { refused, ..Completion::default() });
        }

        let before = Before {
            state: self.state.clone(),
            scheduled: self.memory.scheduled.clone(),
            updates: self.memory.updates.clone(),
        };
        let completed_id = self.write_completion(env, &task, &request, &commands, &messages);
        // Until a transition ends, only workers of its version may keep the run in their cache.
        self.memory.sticky = sticky(&request).filter(|_| !self.state.in_transition());
        let decided = self.apply_commands(env, completed_id, commands, messages, &request.identity, beginning);
        let decided = match decided {
            Ok(decided) => decided,
            Err(rejected) => return self.refuse_decisions(env, before, task, &rejected, &request),
        };
        if self.state.is_running() && !request.force_create_new_workflow_task {
            self.reject_unprocessed_updates();
        }
        if !self.state.is_running() {
            let goes_on = self.changes.successor.is_some();
            self.abort_updates(if goes_on { AbortReason::Continuing } else { AbortReason::Completed });
        }
        let mut completion = Completion { eager: decided.eager, ..Completion::default() };
        if completed_id == 0 {
            completion.reset_history_event_id = self.state.previous_started_id;
        }
        self.schedule_next(env, &task, beats, decided.has_new_events, &request, &mut completion);
        Ok(completion)
    }

    /// Writes the completed event, unless the task was speculative and had no effect.
    #[allow(deprecated, reason = "older workers still send their binary checksum")]
    fn write_completion(
        &mut self,
        env: &Env<'_>,
        task: &WorkflowTask,
        request: &RespondWorkflowTaskCompletedRequest,
        commands: &[Command],
        messages: &[Message],
    ) -> i64 {
        let written = self.task_is_written(task);
        self.state.task = None;
        self.memory.close_attempted = false;
        self.state.task_attempt = 1;
        if task.speculative && self.leaves_no_trace(request, commands, messages) {
            return 0;
        }
        self.touch();
        self.forget_failed_tasks();
        let worker = Worker::new(&request.identity, request.worker_version_stamp.as_ref());
        let task = if written { task.clone() } else { self.write_task(task.clone(), worker) };
        let options = request.deployment_options.clone().unwrap_or_default();
        let versioned = options.worker_versioning_mode() == WorkerVersioningMode::Versioned;
        let deployment_version = versioned.then(|| WorkerDeploymentVersion {
            build_id: options.build_id.clone(),
            deployment_name: options.deployment_name.clone(),
        });
        let attributes = WorkflowTaskCompletedEventAttributes {
            scheduled_event_id: task.scheduled_id,
            started_event_id: task.started_id,
            identity: request.identity.clone(),
            binary_checksum: request.binary_checksum.clone(),
            worker_version: request.worker_version_stamp.clone(),
            sdk_metadata: request.sdk_metadata.clone(),
            metering_metadata: request.metering_metadata,
            versioning_behavior: if versioned { request.versioning_behavior } else { 0 },
            deployment_version,
            worker_deployment_name: options.deployment_name,
            ..WorkflowTaskCompletedEventAttributes::default()
        };
        if self.state.follow_version(&attributes) {
            self.redispatch_activities();
        }
        let completed_id = self.state.next_event_id;
        let limit = env.limits.reset_points;
        self.changes.listing |= self.state.remember_worker(env.now, completed_id, &attributes, limit);
        self.write(env, Attributes::WorkflowTaskCompletedEventAttributes(attributes));
        self.state.previous_started_id = task.started_id;
        completed_id
    }

    fn leaves_no_trace(
        &self,
        request: &RespondWorkflowTaskCompletedRequest,
        commands: &[Command],
        messages: &[Message],
    ) -> bool {
        const MAY_BE_DROPPED: i64 = 10;
        let discards = request.capabilities.as_ref().is_some_and(|it| it.discard_speculative_workflow_task_with_events);
        let allowed = if discards { MAY_BE_DROPPED } else { 0 };
        let only_rejections = messages.iter().all(|message| {
            message.body.as_ref().is_some_and(|body| body.type_url.ends_with("temporal.api.update.v1.Rejection"))
        });
        commands.is_empty()
            && !request.force_create_new_workflow_task
            && self.state.next_event_id <= self.state.previous_started_id + 2 + allowed
            && only_rejections
    }

    /// A command was invalid. The task fails, and all changes of the completion are undone.
    #[allow(deprecated, reason = "older workers still send their binary checksum")]
    fn refuse_decisions(
        &mut self,
        env: &Env<'_>,
        before: Before,
        task: WorkflowTask,
        rejected: &Rejected,
        request: &RespondWorkflowTaskCompletedRequest,
    ) -> Result<Completion, ServiceError> {
        self.state = before.state;
        self.memory.scheduled = before.scheduled;
        self.memory.updates = before.updates;
        self.memory.sticky.clone_from(&self.memory.kept_sticky);
        self.settle_in_memory();
        self.forget_queries();
        self.drop_update_waiters();
        let (cause, terminate) = match rejected {
            Rejected::Task { cause, terminate, .. } => (*cause, *terminate),
            Rejected::Request(error) => return Ok(self.forget_updates_were_sent(env, &task, error.clone())),
        };
        let message = rejected.message();
        let refused = ServiceError::InvalidArgument(message.clone());
        self.abort_updates(AbortReason::TaskFailed);
        if task.attempt > 1 && cause != WorkflowTaskFailedCause::UnhandledCommand {
            // The task keeps failing: it is left to time out, which avoids a tight retry loop.
            self.abort_updates_of_failing_task();
            return Ok(Completion { refused: Some(refused), ..Completion::default() });
        }
        let failure = Some(server_failure(message.clone()));
        self.fail_task(env, task, cause, failure, Worker::unknown(&request.identity), &request.binary_checksum);
        self.memory.close_attempted = cause == WorkflowTaskFailedCause::UnhandledCommand;
        if terminate {
            self.flush();
            self.terminate(env, &message, None, "history-service")?;
        } else {
            self.schedule_task(env, Delivery::Queue, env.now);
            self.abort_updates_of_failing_task();
        }
        Ok(Completion { refused: Some(refused), ..Completion::default() })
    }

    /// A completion that cannot be decoded marks its updates as not sent, and a task that was only for them is
    /// dispatched again to the normal queue.
    fn forget_updates_were_sent(&mut self, env: &Env<'_>, task: &WorkflowTask, error: ServiceError) -> Completion {
        self.readmit_updates();
        if task.speculative {
            self.lose_speculative_task(env);
        }
        Completion { refused: Some(error), ..Completion::default() }
    }

    /// Rejects a completion of a task that does not exist any more. The real server keeps its transient state then,
    /// with two exceptions: it may have read the run too early to know the task, or a sticky task of the same number is
    /// not in any history that this worker could read now.
    pub(crate) fn refuse_stale_answer(&mut self, env: &Env<'_>, scheduled_id: i64) {
        match self.state.task.as_ref().filter(|task| task.scheduled_id == scheduled_id) {
            None if scheduled_id >= self.state.next_event_id => self.drop_transient_state(),
            Some(task) if task.speculative && self.memory.sticky.is_some() => {
                self.readmit_updates();
                self.lose_speculative_task(env);
            }
            _ => {}
        }
    }

    fn lose_speculative_task(&mut self, env: &Env<'_>) {
        self.memory.sticky = None;
        self.memory.kept_sticky = None;
        self.state.task = None;
        if self.has_unsent_updates() {
            self.schedule_speculative_task(env, Delivery::Queue);
        }
    }

    #[allow(deprecated, reason = "unversioned workers still send their build here")]
    fn schedule_next(
        &mut self,
        env: &Env<'_>,
        task: &WorkflowTask,
        beats: bool,
        has_new_events: bool,
        request: &RespondWorkflowTaskCompletedRequest,
        completion: &mut Completion,
    ) {
        if !self.state.is_running() {
            return;
        }
        let moves = self.state.in_transition();
        let inline = request.return_new_workflow_task && !moves;
        let delivery = if inline { Delivery::Inline } else { Delivery::Queue };
        if request.force_create_new_workflow_task || has_new_events || moves {
            let original = if beats { task.original_scheduled_time } else { env.now };
            self.schedule_task(env, delivery, original);
        } else if self.has_unsent_updates() {
            match delivery {
                // The events are stored before the speculative task starts.
                Delivery::Inline => {
                    self.flush();
                    self.schedule_speculative_task(env, delivery);
                }
                Delivery::Queue => self.schedule_task(env, delivery, env.now),
            }
        } else {
            return;
        }
        if delivery == Delivery::Inline
            && let Some(scheduled_id) = self.state.task.as_ref().map(|task| task.scheduled_id)
        {
            let worker = Worker::new(&request.identity, request.worker_version_stamp.as_ref());
            self.state.note_target(&Polled::inline());
            completion.next = self.start_task(env, scheduled_id, worker, INLINE_REQUEST);
        }
    }

    /// A worker reports that it could not complete the task.
    #[allow(deprecated, reason = "unversioned and older workers still send their build here")]
    pub(crate) fn task_failed(
        &mut self,
        env: &Env<'_>,
        token: (i64, i64, i32),
        request: RespondWorkflowTaskFailedRequest,
    ) -> Result<(), ServiceError> {
        let task = self.held_task(token.0, token.1, token.2)?;
        let cause = request.cause();
        if cause == WorkflowTaskFailedCause::GrpcMessageTooLarge {
            return self.terminate(env, &cause_name(cause), None, "history-service");
        }
        let worker = Worker::new(&request.identity, request.worker_version.as_ref());
        self.fail_task(env, task, cause, request.failure, worker, &request.binary_checksum);
        self.ensure_task(env);
        Ok(())
    }
}

pub(crate) fn task_not_found() -> ServiceError {
    ServiceError::not_found("Workflow task not found.")
}

fn sticky(request: &RespondWorkflowTaskCompletedRequest) -> Option<Sticky> {
    let attributes = request.sticky_attributes.as_ref()?;
    let queue = attributes.worker_task_queue.as_ref()?;
    Some(Sticky { queue: queue.name.clone(), schedule_to_start: span(attributes.schedule_to_start_timeout.as_ref()) })
}

fn server_failure(message: String) -> Failure {
    Failure {
        message,
        failure_info: Some(FailureInfo::ServerFailureInfo(ServerFailureInfo::default())),
        ..Failure::default()
    }
}
