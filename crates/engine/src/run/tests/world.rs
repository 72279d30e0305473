//! A run with a clock, a worker and its stored events.

use std::cell::Cell;

use temporalio_protos::temporal::api::{
    history::v1::{HistoryEvent, WorkflowExecutionStartedEventAttributes, history_event::Attributes},
    protocol::v1::Message,
};

use super::{
    commands::{self, metadata, seconds},
    script::{Action, Beginning},
};
use crate::{
    limits::Limits,
    run::{
        Changes, Dispatch, Env, Excluded, Identity, Run, StartSpec,
        nexus::{Endpoint, EndpointTarget},
        state::Parent,
    },
    service_error::ServiceError,
    time::{Nanos, SECOND},
};

pub(super) struct World {
    pub(super) run: Run,
    pub(super) history: Vec<HistoryEvent>,
    /// The same in the batches in which they were written.
    pub(super) batches: Vec<Vec<HistoryEvent>>,
    pub(super) limits: Limits,
    pub(super) now: Nanos,
    pub(super) ids: Cell<u64>,
    pub(super) serial: u64,
    /// What the worker has: token and update messages.
    pub(super) held: Option<Held>,
    pub(super) handed_out: Vec<Dispatch>,
    pub(super) next: Option<Box<Run>>,
    /// Set when a failed operation changed the run.
    pub(super) broken: Option<String>,
}

pub(super) type Held = ((i64, i64, i32), Vec<Message>);

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

    pub(super) fn live(&mut self, happening: Action) {
        self.move_on();
        match happening {
            Action::TakeTask => self.take_task(),
            Action::Decide(decision) => self.decide(decision),
            Action::FailTask => self.fail_task(),
            Action::StartActivity(which) => self.start_activity(which),
            Action::EndActivity(which, end) => self.end_activity(which, end),
            Action::Heartbeat(which) => {
                if let Some((id, attempt)) = self.activity(which) {
                    self.attempt(|run, env| run.heartbeat(env, id, attempt, None));
                }
            }
            Action::Operate(which, operation) => self.operate(which, operation),
            Action::Wait { seconds } => {
                self.now += seconds * SECOND;
                let beginning = self.beginning();
                self.act(|run, env| run.fire_due(env, &mut || beginning.clone()));
            }
            Action::Signal => self.signal(),
            Action::Cancel => {
                self.attempt(|run, env| run.request_cancel(env, "cancel", "why", "client", None));
            }
            Action::Terminate => {
                self.attempt(|run, env| run.terminate(env, "why", None, "client"));
            }
            Action::AnswerMessage { refused } => self.answer_message(refused),
            Action::EndChild(which, end) => self.end_child(which, end),
            Action::Update => {
                self.serial += 1;
                let request = commands::request(&format!("update {}", self.serial));
                self.attempt(|run, env| run.admit_update(env, request));
            }
            Action::Restart => self.restart(),
            Action::Unstick => {
                self.act(|run, _| run.unstick());
            }
            Action::AnswerNexus(which, answer) => self.answer_nexus(which, answer),
            Action::Reset { to, signals, updates, nexus } => self.reset(to, Excluded { signals, updates, nexus }),
        }
    }

    /// Continues with the next run of the chain, if there is one.
    pub(super) fn move_on(&mut self) {
        if let Some(next) = self.next.take() {
            self.run = *next;
            self.history.clear();
            self.batches.clear();
            self.held = None;
            self.act(|_, _| ());
            let nexus = with_env(&self.limits, &self.ids, self.now, |env| self.run.waiting_nexus(env));
            let waiting = self.run.waiting_task().into_iter().chain(self.run.waiting_activities()).chain(nexus);
            let forgotten: Vec<_> = waiting.filter(|task| !self.handed_out.contains(task)).collect();
            if !forgotten.is_empty() {
                self.broken = Some(format!("no worker gets {forgotten:?}"));
            }
        }
    }

    /// Applies an operation as the engine does, and stores its changes.
    pub(super) fn act<T>(&mut self, act: impl FnOnce(&mut Run, &Env<'_>) -> T) -> T {
        let run = &mut self.run;
        let (value, changes) = with_env(&self.limits, &self.ids, self.now, |env| {
            let value = act(run, env);
            (value, run.settle(env))
        });
        self.commit(changes);
        value
    }

    /// As [`act`](Self::act); an operation that fails must have changed nothing.
    pub(super) fn attempt<T>(&mut self, act: impl FnOnce(&mut Run, &Env<'_>) -> Result<T, ServiceError>) -> Option<T> {
        let before = self.run.state.clone();
        let written = self.history.len();
        match self.act(act) {
            Ok(value) => Some(value),
            Err(error) => {
                if self.run.state != before || self.history.len() != written {
                    self.broken = Some(format!("\"{error}\" was returned, but the run has changed"));
                }
                None
            }
        }
    }

    fn commit(&mut self, changes: Changes) {
        for batch in changes.inherited.into_iter().chain([changes.events]).filter(|batch| !batch.is_empty()) {
            self.history.extend(batch.iter().cloned());
            self.batches.push(batch);
        }
        self.handed_out = changes.dispatches;
        self.next = changes.successor;
    }

    pub(super) fn beginning(&self) -> Option<WorkflowExecutionStartedEventAttributes> {
        match self.history.first()?.attributes.clone()? {
            Attributes::WorkflowExecutionStartedEventAttributes(started) => Some(started),
            _ => None,
        }
    }
}

pub(super) fn with_env<T>(limits: &Limits, ids: &Cell<u64>, now: Nanos, act: impl FnOnce(&Env<'_>) -> T) -> T {
    let new_id = || {
        ids.set(ids.get() + 1);
        format!("id {}", ids.get())
    };
    act(&Env {
        now,
        limits,
        new_id: &new_id,
        chance: &|_| 0,
        namespace_id: &|name| Some(format!("id of {name}")),
        check_attributes: &|_| Ok(()),
        nexus_endpoint: &|_, name| endpoint(name),
        has_queue: &|queue, version| queue == version.build_id,
    })
}

/// Endpoints whose names begin with `e` exist.
fn endpoint(name: &str) -> Option<Endpoint> {
    let target = EndpointTarget::Worker { namespace: "there".to_owned(), task_queue: "handlers".to_owned() };
    name.starts_with('e').then(|| Endpoint { id: format!("id of {name}"), target })
}
