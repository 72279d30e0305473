//! A run and what is around it: a clock, a worker, and whatever has been written.

use std::cell::Cell;

use prost::Message as _;
use temporalio_protos::temporal::api::{
    common::v1::WorkflowExecution,
    enums::v1::{
        CancelExternalWorkflowExecutionFailedCause, SignalExternalWorkflowExecutionFailedCause,
        StartChildWorkflowExecutionFailedCause, WorkflowTaskFailedCause,
    },
    failure::v1::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    history::v1::{
        HistoryEvent, WorkflowExecutionCanceledEventAttributes, WorkflowExecutionCompletedEventAttributes,
        WorkflowExecutionFailedEventAttributes, WorkflowExecutionStartedEventAttributes,
        WorkflowExecutionTerminatedEventAttributes, WorkflowExecutionTimedOutEventAttributes,
        history_event::Attributes,
    },
    protocol::v1::Message,
    taskqueue::v1::{StickyExecutionAttributes, TaskQueue},
    workflowservice::v1::{RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskFailedRequest},
};

use super::{
    commands::{self, metadata, seconds},
    script::{ActivityEnd, Beginning, ChildEnd, Decision, Happening, UpdateAnswer},
};
use crate::{
    limits::Limits,
    refusal::Refusal,
    run::{
        ActivityFailure, Changes, Dispatch, Env, Excluded, Fork, Identity, Run, RunState, Signal, StartSpec,
        StartedTask,
        events::new_event,
        outbox::{Content, Letter},
        part,
        state::Parent,
    },
    time::{Nanos, SECOND},
};

pub(super) struct World {
    pub(super) run: Run,
    pub(super) history: Vec<HistoryEvent>,
    /// The same in the batches in which they were written.
    batches: Vec<Vec<HistoryEvent>>,
    pub(super) limits: Limits,
    now: Nanos,
    ids: Cell<u64>,
    serial: u64,
    /// What a worker holds: token and update messages.
    held: Option<(Token, Vec<Message>)>,
    handed_out: Vec<Dispatch>,
    next: Option<Box<Run>>,
    /// Set when a refused operation left something behind.
    pub(super) broken: Option<String>,
}

type Token = (i64, i64, i32);

impl World {
    pub(super) fn begin(beginning: Beginning) -> Self {
        let spec = StartSpec {
            number: 1,
            namespace: "here".to_owned(),
            workflow_id: "workflow".to_owned(),
            run_id: "run".to_owned(),
            request_id: "start".to_owned(),
            workflow_type: "kind".to_owned(),
            task_queue: "queue".to_owned(),
            execution_timeout: seconds(beginning.execution_seconds),
            run_timeout: seconds(beginning.run_seconds),
            task_timeout: seconds(10),
            first_task_backoff: seconds(beginning.delay_seconds),
            retry_policy: beginning.retried.then(|| {
                let mut policy = temporalio_protos::temporal::api::common::v1::RetryPolicy::default();
                crate::run::retry::complete(&mut policy);
                policy
            }),
            user_metadata: beginning.described.then(metadata),
            parent: beginning.is_child.then(|| Parent {
                namespace: "here".to_owned(),
                workflow_id: "parent".to_owned(),
                run_id: "parent run".to_owned(),
                initiated_id: 5,
            }),
            ..StartSpec::default()
        };
        let limits = Limits::default();
        let (now, ids) = (1_000 * SECOND, Cell::new(0));
        let run = with_env(&limits, &ids, now, |env| Run::start(env, spec));
        let mut world = Self {
            run,
            history: Vec::new(),
            batches: Vec::new(),
            limits,
            now,
            ids,
            serial: 0,
            held: None,
            handed_out: Vec::new(),
            next: None,
            broken: None,
        };
        world.act(|run, env| run.begin(env));
        world
    }

    pub(super) fn identity(&self) -> Identity {
        Identity {
            namespace: self.run.state.namespace.clone(),
            run_id: self.run.state.run_id.clone(),
            create_request_id: self.run.state.create_request_id.clone(),
        }
    }

    pub(super) fn live(&mut self, happening: Happening) {
        self.move_on();
        match happening {
            Happening::TakeTask => self.take_task(),
            Happening::Decide(decision) => self.decide(decision),
            Happening::FailTask => self.fail_task(),
            Happening::StartActivity(which) => self.start_activity(which),
            Happening::EndActivity(which, end) => self.end_activity(which, end),
            Happening::Heartbeat(which) => {
                if let Some((id, attempt)) = self.activity(which) {
                    self.attempt(|run, env| run.heartbeat(env, id, attempt, None));
                }
            }
            Happening::Wait { seconds } => {
                self.now += seconds * SECOND;
                let beginning = self.beginning();
                self.act(|run, env| run.ring(env, &mut || beginning.clone()));
            }
            Happening::Signal => self.signal(),
            Happening::Cancel => {
                self.attempt(|run, env| run.request_cancel(env, "cancel", "why", "somebody", None));
            }
            Happening::Terminate => {
                self.attempt(|run, env| run.terminate(env, "why", None, "somebody"));
            }
            Happening::AnswerLetter { refused } => self.answer_letter(refused),
            Happening::EndChild(which, end) => self.end_child(which, end),
            Happening::Update => {
                self.serial += 1;
                let request = commands::request(&format!("update {}", self.serial));
                self.attempt(|run, env| run.admit_update(env, request));
            }
            Happening::Restart => self.restart(),
            Happening::Unstick => {
                self.act(|run, _| run.unstick());
            }
            Happening::Reset { to, signals, updates } => self.reset(to, Excluded { signals, updates }),
        }
    }

    /// Turns to the run that takes over, if there is one.
    pub(super) fn move_on(&mut self) {
        if let Some(next) = self.next.take() {
            self.run = *next;
            self.history.clear();
            self.batches.clear();
            self.held = None;
            self.act(|_, _| ());
            let waiting = self.run.waiting_task().into_iter().chain(self.run.waiting_activities());
            let forgotten: Vec<_> = waiting.filter(|task| !self.handed_out.contains(task)).collect();
            if !forgotten.is_empty() {
                self.broken = Some(format!("nobody gets {forgotten:?}"));
            }
        }
    }

    /// Lets something happen as the engine does, and keeps what came of it.
    fn act<T>(&mut self, act: impl FnOnce(&mut Run, &Env<'_>) -> T) -> T {
        let run = &mut self.run;
        let (value, changes) = with_env(&self.limits, &self.ids, self.now, |env| {
            let value = act(run, env);
            (value, run.settle(env))
        });
        self.keep(changes);
        value
    }

    /// As [`act`](Self::act); whoever refuses must have changed nothing.
    fn attempt<T>(&mut self, act: impl FnOnce(&mut Run, &Env<'_>) -> Result<T, Refusal>) -> Option<T> {
        let before = self.run.state.clone();
        let written = self.history.len();
        match self.act(act) {
            Ok(value) => Some(value),
            Err(refusal) => {
                if self.run.state != before || self.history.len() != written {
                    self.broken = Some(format!("\"{refusal}\" was said, and yet the run is not as before"));
                }
                None
            }
        }
    }

    fn keep(&mut self, changes: Changes) {
        for batch in changes.inherited.into_iter().chain([changes.events]).filter(|batch| !batch.is_empty()) {
            self.history.extend(batch.iter().cloned());
            self.batches.push(batch);
        }
        self.handed_out = changes.dispatches;
        self.next = changes.successor;
    }

    /// The new run takes the old one's place.
    fn reset(&mut self, to: usize, excluded: Excluded) {
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
            new.go_on(env);
        });
        self.next = Some(Box::new(new));
    }

    fn beginning(&self) -> Option<WorkflowExecutionStartedEventAttributes> {
        match self.history.first()?.attributes.clone()? {
            Attributes::WorkflowExecutionStartedEventAttributes(started) => Some(started),
            _ => None,
        }
    }

    fn take_task(&mut self) {
        let Some(scheduled_id) = self.run.state.task.as_ref().map(|task| task.scheduled_id) else { return };
        let taken = self.act(|run, env| {
            let started = run.start_task(env, scheduled_id, "worker", "take")?;
            Some(held(run, &started))
        });
        if taken.is_some() {
            self.held = taken;
        }
    }

    fn decide(&mut self, decision: Decision) {
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

    fn fail_task(&mut self) {
        let Some((token, _)) = self.held.take() else { return };
        let request = RespondWorkflowTaskFailedRequest {
            cause: WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure as i32,
            identity: "worker".to_owned(),
            ..RespondWorkflowTaskFailedRequest::default()
        };
        self.attempt(|run, env| run.task_failed(env, token, request));
    }

    fn activity(&self, which: usize) -> Option<(i64, i32)> {
        let all: Vec<_> = self.run.state.activities.iter().map(|(id, activity)| (*id, activity.attempt)).collect();
        all.get(which % all.len().max(1)).copied()
    }

    fn start_activity(&mut self, which: usize) {
        if let Some((id, attempt)) = self.activity(which) {
            self.act(|run, env| run.start_activity(env, id, attempt, "worker", "take"));
        }
    }

    fn end_activity(&mut self, which: usize, end: ActivityEnd) {
        let Some((id, attempt)) = self.activity(which) else { return };
        self.attempt(|run, env| match end {
            ActivityEnd::Completed => run.complete_activity(env, id, attempt, None, "worker"),
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

    fn signal(&mut self) {
        self.serial += 1;
        let signal =
            Signal { name: "signal".to_owned(), request_id: format!("signal {}", self.serial), ..Signal::default() };
        self.attempt(|run, env| run.signal(env, signal));
    }

    fn answer_letter(&mut self, refused: bool) {
        let Some(Letter { id, content: Some(content) }) = self.run.next_letter().cloned() else { return };
        self.serial += 1;
        let run_id = format!("child run {}", self.serial);
        self.act(|run, env| {
            match content {
                Content::StartChild(letter) if refused => {
                    run.child_not_started(env, &letter, StartChildWorkflowExecutionFailedCause::WorkflowAlreadyExists);
                }
                Content::StartChild(letter) => run.child_started(env, &letter, &run_id),
                Content::Signal(letter) => {
                    let cause = SignalExternalWorkflowExecutionFailedCause::ExternalWorkflowExecutionNotFound;
                    run.signal_answered(env, &letter, refused.then_some(cause));
                }
                Content::Cancel(letter) => {
                    let cause = CancelExternalWorkflowExecutionFailedCause::ExternalWorkflowExecutionNotFound;
                    run.cancel_answered(env, &letter, refused.then_some(cause));
                }
                Content::ChildEnded(_) | Content::ParentEnded(_) => {}
            }
            run.letter_done(id);
        });
    }

    fn end_child(&mut self, which: usize, end: ChildEnd) {
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

    /// The process ends and another one takes the run up from disk.
    fn restart(&mut self) {
        let mut kept = self.run.state.clone();
        kept.task.take_if(|task| task.speculative);
        let state = RunState::decode(kept.encode_to_vec().as_slice());
        match state {
            Ok(state) if state == kept => self.run = Run::loaded(self.run.number, state),
            other => self.broken = Some(format!("what was written is not what is read: {other:?}")),
        }
    }
}

fn held(run: &mut Run, started: &StartedTask) -> (Token, Vec<Message>) {
    let task = &started.task;
    let token = (task.scheduled_id, task.started_id, task.attempt);
    (token, run.update_messages(task.started_id, true))
}

fn with_env<T>(limits: &Limits, ids: &Cell<u64>, now: Nanos, act: impl FnOnce(&Env<'_>) -> T) -> T {
    let new_id = || {
        ids.set(ids.get() + 1);
        format!("id {}", ids.get())
    };
    act(&Env {
        now,
        limits,
        new_id: &new_id,
        namespace_id: &|name| Some(format!("id of {name}")),
        check_attributes: &|_| Ok(()),
    })
}
