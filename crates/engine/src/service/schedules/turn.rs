//! A turn of a schedule: apply what was asked, store what was decided, execute it, store what came of it.
//!
//! The lock of the schedule is held during a turn. A turn that was interrupted continues with the next one: decided
//! starts are stored before they are executed, and are executed again with the same request id.

use std::sync::Arc;

use prost::Message as _;
use temporalio_protos::temporal::api::schedule::v1::SchedulePatch;
use tokio::sync::oneshot;
use windlass_sqlite::Ack;

use super::checks::WORKFLOW_ID_PREFIX;
use crate::{
    clock::SkippingClock,
    core::{Core, unavailable},
    persist::{self, ScheduleRow},
    schedule::{Change, Decision, Machine, ScheduleState},
    schedules::ScheduleKey,
    service_error::ServiceError,
    time::{Nanos, SECOND, moment},
    visibility::index,
};

/// Pause before a turn that failed is tried again.
const PAUSE: Nanos = SECOND;

/// What a request asks of a schedule.
pub(super) enum Asked {
    Create { machine: Box<Machine>, patch: Option<SchedulePatch> },
    Change { change: Box<Change>, request_id: String },
    Delete,
}

/// Answers the request of a turn as soon as its effect is durable.
struct Reply(Option<oneshot::Sender<Result<(), ServiceError>>>);

impl Reply {
    fn send(&mut self, answer: Result<(), ServiceError>) {
        if let Some(reply) = self.0.take() {
            // The client may have left.
            reply.send(answer).ok();
        }
    }
}

impl Core {
    /// Takes a turn for a request. It has a task of its own, so that it ends even if the client leaves.
    pub(super) async fn ask_schedule(self: &Arc<Self>, key: ScheduleKey, asked: Asked) -> Result<(), ServiceError> {
        let (reply, answer) = oneshot::channel();
        tokio::spawn(Arc::clone(self).take_turn(key, Some(asked), Reply(Some(reply))));
        answer
            .await
            .map_err(|_| ServiceError::Unavailable("the schedule's turn was interrupted; try again".to_owned()))?
    }

    /// A turn that is due, or follows the end of a run.
    pub(crate) async fn due_turn(self: Arc<Self>, key: ScheduleKey) {
        self.take_turn(key, None, Reply(None)).await;
    }

    async fn take_turn(self: Arc<Self>, key: ScheduleKey, asked: Option<Asked>, mut reply: Reply) {
        let _hold = self.clock.skipping().map(SkippingClock::hold);
        let _lock = self.schedules.lock(&key).await;
        match Box::pin(self.turn(&key, asked, &mut reply)).await {
            Ok(()) => {}
            Err(error) if reply.0.is_some() => {
                reply.send(Err(error));
            }
            Err(ServiceError::NotFound(_) | ServiceError::NamespaceNotFound(_)) => self.set_alarm(&key, None),
            Err(error @ ServiceError::DataLoss(_)) => {
                tracing::error!(%error, schedule = &*key.schedule_id, "a schedule cannot be read; it takes no actions");
                self.set_alarm(&key, None);
            }
            Err(error) => {
                tracing::warn!(%error, schedule = &*key.schedule_id, "a schedule's turn failed; retrying");
                self.set_alarm(&key, Some(self.now() + PAUSE));
            }
        }
    }

    async fn turn(
        self: &Arc<Self>,
        key: &ScheduleKey,
        asked: Option<Asked>,
        reply: &mut Reply,
    ) -> Result<(), ServiceError> {
        let namespace_id = self.read_namespaces().named(&key.namespace)?.id.clone();
        let (mut machine, change) = match asked {
            Some(Asked::Create { machine, patch }) => {
                if self.is_created(key, &machine.state)? {
                    reply.send(Ok(()));
                    return Ok(());
                }
                (*machine, patch.map(Change::Patch))
            }
            Some(Asked::Change { change, request_id }) => {
                let mut machine = self.open_schedule(key, &namespace_id)?;
                if machine.is_repeated(&request_id) {
                    reply.send(Ok(()));
                    return Ok(());
                }
                (machine, Some(*change))
            }
            Some(Asked::Delete) => {
                let mut machine = self.open_schedule(key, &namespace_id)?;
                machine.state.closed_at = self.now();
                self.save_schedule(&machine).await?;
                reply.send(Ok(()));
                self.set_alarm(key, None);
                return Ok(());
            }
            None => (self.open_schedule(key, &namespace_id)?, None),
        };
        if !machine.state.starting.is_empty() {
            self.start_decided(&mut machine).await?;
        }
        machine.turn(change, &namespace_id);
        self.look_at_runs(&mut machine)?;
        loop {
            let Decision { cancels, terminates, mut again } = machine.decide(&|| uuid::Uuid::new_v4().to_string());
            self.save_schedule(&machine).await?;
            reply.send(Ok(()));
            if !machine.state.starting.is_empty() {
                again |= self.start_decided(&mut machine).await?;
                self.save_schedule(&machine).await?;
            }
            if cancels || terminates {
                self.end_runs(&machine, terminates).await;
            }
            if !again {
                break;
            }
        }
        if machine.is_over() {
            machine.state.closed_at = self.now();
            self.save_schedule(&machine).await?;
        }
        self.set_alarm(key, alarm(&machine));
        Ok(())
    }

    /// Whether this schedule was created by this request. Another one must not be open.
    fn is_created(&self, key: &ScheduleKey, new: &ScheduleState) -> Result<bool, ServiceError> {
        match self.find_schedule(key)? {
            Some(known) if known.create_request_id == new.create_request_id => Ok(true),
            Some(known) if known.closed_at == 0 => Err(ServiceError::AlreadyStarted {
                message: format!("schedule \"{}\" is already registered", key.schedule_id),
                start_request_id: String::new(),
                run_id: String::new(),
                first_run_id: String::new(),
            }),
            _ => Ok(false),
        }
    }

    /// A schedule that may be changed.
    fn open_schedule(&self, key: &ScheduleKey, namespace_id: &str) -> Result<Machine, ServiceError> {
        let state = self.known_schedule(key)?;
        if state.closed_at != 0 {
            return Err(ServiceError::not_found("workflow execution already completed"));
        }
        Ok(Machine::new(state, namespace_id, self.now()))
    }

    /// A schedule that is open or was closed not long ago.
    pub(super) fn known_schedule(&self, key: &ScheduleKey) -> Result<ScheduleState, ServiceError> {
        let id = &key.schedule_id;
        self.find_schedule(key)?
            .ok_or_else(|| ServiceError::not_found(format!("workflow not found for ID: {WORKFLOW_ID_PREFIX}{id}")))
    }

    fn find_schedule(&self, key: &ScheduleKey) -> Result<Option<ScheduleState>, ServiceError> {
        self.read(|sql| persist::find_schedule(sql, &key.namespace, &key.schedule_id))
    }

    pub(super) async fn save_schedule(&self, machine: &Machine) -> Result<(), ServiceError> {
        let state = &machine.state;
        let known = self.read_namespaces().attributes(&state.namespace);
        let mut attributes = state.search_attributes.clone().unwrap_or_default();
        let paused = state.schedule.as_ref().and_then(|schedule| schedule.state.as_ref()).is_some_and(|s| s.paused);
        attributes.indexed_fields.insert("TemporalSchedulePaused".to_owned(), super::runs::json(&paused.into()));
        let closed = state.closed_at != 0;
        let row = ScheduleRow {
            namespace: state.namespace.clone(),
            schedule_id: state.schedule_id.clone(),
            created: state.info.as_ref().map_or(0, |info| moment(info.create_time.as_ref())),
            closed: closed.then_some(state.closed_at),
            next_due: alarm(machine),
            busy: !closed && (!state.starting.is_empty() || !machine.running().is_empty()),
            state: state.encode_to_vec(),
            attributes: index::index_kept(&attributes, &known).json,
        };
        let saved = self.database.apply(Ack::Durable, move |tx| row.apply(tx));
        saved.await.map_err(|error| unavailable(&error))
    }

    fn set_alarm(&self, key: &ScheduleKey, at: Option<Nanos>) {
        if let Some(at) = at {
            self.schedules.set(at, key.clone());
        }
        self.clock.skipping().inspect(|clock| clock.set_schedule(key, at));
    }
}

fn alarm(machine: &Machine) -> Option<Nanos> {
    if machine.state.closed_at == 0 { machine.alarm() } else { None }
}
