//! Applies the actions of a script to a run.

use std::collections::BTreeSet;

use prost::Message as _;
use temporalio_protos::temporal::api::{
    activity::v1::ActivityOptions,
    common::v1::WorkflowExecution,
    enums::v1::{
        CancelExternalWorkflowExecutionFailedCause, SignalExternalWorkflowExecutionFailedCause,
        StartChildWorkflowExecutionFailedCause, WorkflowTaskFailedCause,
    },
    failure::v1::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    history::v1::{
        WorkflowExecutionCanceledEventAttributes, WorkflowExecutionCompletedEventAttributes,
        WorkflowExecutionFailedEventAttributes, WorkflowExecutionTerminatedEventAttributes,
        WorkflowExecutionTimedOutEventAttributes, history_event::Attributes,
    },
    protocol::v1::Message,
    taskqueue::v1::{StickyExecutionAttributes, TaskQueue},
    workflowservice::v1::{RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskFailedRequest},
};

use super::{
    commands::{self, metadata, seconds},
    script::{ActivityEnd, ChildEnd, Decision, Operation, UpdateAnswer},
    world::{Held, World, with_env},
};
use crate::{
    run::{
        ActivityFailure, Excluded, Fork, Identity, OptionsChange, Reset, Run, RunState, Selected, Signal, StartedTask,
        Unpause, Worker,
        events::new_event,
        outbox::{Content, OutboxMessage},
        part,
        state::Pause,
    },
    time::SECOND,
};

impl World {
    pub(super) fn take_task(&mut self) {
        let Some(scheduled_id) = self.run.state.task.as_ref().map(|task| task.scheduled_id) else { return };
        let taken = self.act(|run, env| {
            let started = run.start_task(env, scheduled_id, Worker::unknown("worker"), "take")?;
            Some(held(run, &started))
        });
        if taken.is_some() {
            self.held = taken;
        }
    }

    pub(super) fn decide(&mut self, decision: Decision) {
        if self.held.is_none() {
            self.take_task();
        }
        let Some((token, messages)) = self.held.take() else { return };
        let mut serial = self.serial;
        let mut all: Vec<_> = Vec::new();
        let answers = self.update_answers(decision.updates, &messages);
        all.extend(answers.iter().map(commands::say));
        all.extend(decision.commands.into_iter().map(|what| commands::command(&self.run, what, &mut serial)));
        for command in &mut all {
            command.user_metadata = decision.described.then(metadata);
        }
        self.serial = serial;
        let request = RespondWorkflowTaskCompletedRequest {
            commands: all,
            messages: answers,
            identity: "worker".to_owned(),
            force_create_new_workflow_task: decision.heartbeat,
            return_new_workflow_task: decision.wants_next,
            sticky_attributes: decision.caches.then(|| StickyExecutionAttributes {
                worker_task_queue: Some(TaskQueue { name: "sticky".to_owned(), ..TaskQueue::default() }),
                schedule_to_start_timeout: seconds(5),
            }),
            ..RespondWorkflowTaskCompletedRequest::default()
        };
        let beginning = self.beginning();
        let held = self.attempt(|run, env| {
            let completion = run.complete_task(env, token, request, &mut || beginning.clone())?;
            Ok(completion.next.map(|next| held(run, &next)))
        });
        self.held = held.flatten();
    }

    fn update_answers(&self, how: UpdateAnswer, messages: &[Message]) -> Vec<Message> {
        let accepted = self.run.state.updates.iter().filter(|(_, it)| it.accepted_id != 0 && it.completed_id == 0);
        let mut answers = match how {
            UpdateAnswer::Complete => accepted.map(|(id, _)| commands::answer(id)).collect(),
            _ => Vec::new(),
        };
        for message in messages {
            let id = &message.protocol_instance_id;
            match how {
                UpdateAnswer::Silence => {}
                UpdateAnswer::Reject => answers.push(commands::reject(id)),
                UpdateAnswer::Accept => answers.push(commands::accept(id, 1)),
                UpdateAnswer::Complete => answers.extend([commands::accept(id, 1), commands::answer(id)]),
            }
        }
        answers
    }

    pub(super) fn fail_task(&mut self) {
        let Some((token, _)) = self.held.take() else { return };
        let request = RespondWorkflowTaskFailedRequest {
            cause: WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure as i32,
            identity: "worker".to_owned(),
            ..RespondWorkflowTaskFailedRequest::default()
        };
        self.attempt(|run, env| run.task_failed(env, token, request));
    }

    pub(super) fn activity(&self, which: usize) -> Option<(i64, i32)> {
        let all: Vec<_> = self.run.state.activities.iter().map(|(id, activity)| (*id, activity.attempt)).collect();
        all.get(which % all.len().max(1)).copied()
    }

    pub(super) fn start_activity(&mut self, which: usize) {
        if let Some((id, attempt)) = self.activity(which) {
            let stamp = self.run.state.activities[&id].stamp;
            self.act(|run, env| run.start_activity(env, id, (attempt, stamp), "worker", "take", None));
        }
    }

    pub(super) fn operate(&mut self, which: usize, operation: Operation) {
        let Some((id, _)) = self.activity(which) else { return };
        let selected = Selected::Id(self.run.state.activities[&id].id.clone());
        match operation {
            Operation::Pause => {
                let pause = Pause { time: self.now, ..Pause::default() };
                self.attempt(|run, _| run.pause_activities(&selected, &pause));
            }
            Operation::Unpause { attempts, jitter } => {
                let unpause = Unpause { reset_attempts: attempts, jitter: jitter * SECOND, ..Unpause::default() };
                self.attempt(|run, env| run.unpause_activities(env, &selected, &unpause));
            }
            Operation::Reset { keep_paused, heartbeat } => {
                let reset = Reset { keep_paused, reset_heartbeat: heartbeat, ..Reset::default() };
                if self.run.state.is_running() {
                    self.act(|run, env| run.reset_activity(env, id, &reset));
                }
            }
            Operation::Move => {
                let options = ActivityOptions {
                    task_queue: Some(TaskQueue { name: "elsewhere".to_owned(), ..TaskQueue::default() }),
                    ..ActivityOptions::default()
                };
                let fields = BTreeSet::from(["taskQueue.name".to_owned()]);
                let change = OptionsChange::Merge { options: Box::new(options), fields };
                if self.run.state.is_running() {
                    self.attempt(|run, env| run.change_activity_options(env, id, &change, None));
                }
            }
        }
    }

    pub(super) fn end_activity(&mut self, which: usize, end: ActivityEnd) {
        let Some((id, attempt)) = self.activity(which) else { return };
        self.attempt(|run, env| match end {
            ActivityEnd::Completed => run.complete_activity(env, id, attempt, None, Worker::unknown("worker")),
            ActivityEnd::Failed { retryable } => {
                let info = ApplicationFailureInfo { non_retryable: !retryable, ..ApplicationFailureInfo::default() };
                let failure =
                    Failure { failure_info: Some(FailureInfo::ApplicationFailureInfo(info)), ..Failure::default() };
                run.fail_activity(
                    env,
                    id,
                    attempt,
                    ActivityFailure { failure: Some(failure), ..ActivityFailure::default() },
                )
            }
            ActivityEnd::Cancelled => run.cancel_activity(env, id, attempt, None, "worker"),
        });
    }

    pub(super) fn signal(&mut self) {
        self.serial += 1;
        let signal =
            Signal { name: "signal".to_owned(), request_id: format!("signal {}", self.serial), ..Signal::default() };
        self.attempt(|run, env| run.signal(env, signal));
    }

    pub(super) fn answer_message(&mut self, refused: bool) {
        let Some(OutboxMessage { id, content: Some(content) }) = self.run.next_message().cloned() else { return };
        self.serial += 1;
        let run_id = format!("child run {}", self.serial);
        self.act(|run, env| {
            match content {
                Content::StartChild(message) if refused => {
                    run.child_not_started(env, &message, StartChildWorkflowExecutionFailedCause::WorkflowAlreadyExists);
                }
                Content::StartChild(message) => run.child_started(env, &message, &run_id),
                Content::Signal(message) => {
                    let cause = SignalExternalWorkflowExecutionFailedCause::ExternalWorkflowExecutionNotFound;
                    run.signal_answered(env, &message, refused.then_some(cause));
                }
                Content::Cancel(message) => {
                    let cause = CancelExternalWorkflowExecutionFailedCause::ExternalWorkflowExecutionNotFound;
                    run.cancel_answered(env, &message, refused.then_some(cause));
                }
                Content::ChildEnded(_) | Content::ParentEnded(_) | Content::CallBack(_) => {}
            }
            run.remove_message(id);
        });
    }

    pub(super) fn end_child(&mut self, which: usize, end: ChildEnd) {
        let started: Vec<_> = self.run.state.children.iter().filter(|(_, child)| !child.run_id.is_empty()).collect();
        let Some((initiated_id, child)) = started.get(which % started.len().max(1)) else { return };
        let (initiated_id, run_id) = (**initiated_id, child.run_id.clone());
        let ended = WorkflowExecution { workflow_id: child.workflow_id.clone(), run_id: run_id.clone() };
        let end = new_event(
            self.now,
            match end {
                ChildEnd::Completed => Attributes::WorkflowExecutionCompletedEventAttributes(
                    WorkflowExecutionCompletedEventAttributes::default(),
                ),
                ChildEnd::Failed => {
                    Attributes::WorkflowExecutionFailedEventAttributes(WorkflowExecutionFailedEventAttributes::default())
                }
                ChildEnd::Cancelled => Attributes::WorkflowExecutionCanceledEventAttributes(
                    WorkflowExecutionCanceledEventAttributes::default(),
                ),
                ChildEnd::TimedOut => Attributes::WorkflowExecutionTimedOutEventAttributes(
                    WorkflowExecutionTimedOutEventAttributes::default(),
                ),
                ChildEnd::Terminated => Attributes::WorkflowExecutionTerminatedEventAttributes(
                    WorkflowExecutionTerminatedEventAttributes::default(),
                ),
            },
        );
        self.act(|run, env| run.child_ended(env, initiated_id, ended, &run_id, &end));
    }

    /// Restarts the engine: the run is loaded from its stored state.
    pub(super) fn restart(&mut self) {
        let mut kept = self.run.state.clone();
        kept.task.take_if(|task| task.speculative);
        let state = RunState::decode(kept.encode_to_vec().as_slice());
        match state {
            Ok(state) if state == kept => self.run = Run::loaded(self.run.number, state),
            other => self.broken = Some(format!("what was written is not what is read: {other:?}")),
        }
    }

    /// Resets the run and continues with the new one.
    pub(super) fn reset(&mut self, to: usize, excluded: Excluded) {
        let after = i64::try_from(to % self.history.len()).unwrap_or_default() + 1;
        let Ok((shared, later)) = part(self.batches.clone(), after) else { return };
        self.serial += 1;
        let fork = Fork {
            number: self.run.number + 1,
            identity: Identity { run_id: format!("reset {}", self.serial), ..self.identity() },
            base_run_id: self.run.state.run_id.clone(),
            reason: "again".to_owned(),
            shared,
        };
        let Ok(mut new) = with_env(&self.limits, &self.ids, self.now, |env| Run::fork(env, fork)) else { return };
        let new_id = new.state.run_id.clone();
        let ended = self.act(|run, env| {
            run.reset_to(&new_id);
            if run.state.is_running() { run.end_for_reset(env, "again") } else { Ok(Vec::new()) }
        });
        with_env(&self.limits, &self.ids, self.now, |env| {
            new.reapply(env, &later, excluded);
            new.reapply(env, &ended.unwrap_or_default(), excluded);
            new.resume_after_reset(env);
        });
        self.next = Some(Box::new(new));
    }
}

fn held(run: &mut Run, started: &StartedTask) -> Held {
    let task = &started.task;
    let token = (task.scheduled_id, task.started_id, task.attempt);
    (token, run.update_messages(task.started_id, true))
}
