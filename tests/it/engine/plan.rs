//! The plan of a workflow of the workload, and the commands that follow from its history.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use temporalio_protos::temporal::api::{
    command::v1::{
        CancelTimerCommandAttributes, Command, CompleteWorkflowExecutionCommandAttributes,
        ContinueAsNewWorkflowExecutionCommandAttributes, RecordMarkerCommandAttributes,
        ScheduleActivityTaskCommandAttributes, SignalExternalWorkflowExecutionCommandAttributes,
        StartChildWorkflowExecutionCommandAttributes, StartTimerCommandAttributes, command::Attributes as Do,
    },
    common::v1::{ActivityType, RetryPolicy, WorkflowExecution, WorkflowType},
    enums::v1::CommandType,
    history::v1::{HistoryEvent, history_event::Attributes as E},
};

use super::client::{QUEUE, milliseconds, payloads, queue, text};
use crate::proofs::dice::Dice;

pub(super) const WORKFLOW: &str = "planned";
/// An activity with one attempt, and one with retries.
pub(super) const ONCE: &str = "once";
pub(super) const AGAIN: &str = "again";
/// The marker of each completion, with a unique id.
pub(super) const DECISION: &str = "decision";
const ROUND: &str = "round";
pub(super) const GO: &str = "go";

/// The workflow task timeout, in milliseconds.
pub(super) const TASK_TIMEOUT: u64 = 400;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    rounds: Vec<Vec<Action>>,
    /// Signals without which this run does not end.
    pub(super) signals: usize,
    /// Runs that follow this one.
    pub(super) chain: usize,
}

/// The actions of a round begin together; the next round begins when all of them have ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Action {
    Once,
    Again,
    Timer {
        ms: u64,
    },
    /// A timer that is cancelled by the next round.
    LongTimer,
    Child(Plan),
}

impl Plan {
    pub(super) fn random(dice: &mut Dice) -> Self {
        let rounds = 1 + dice.roll(3);
        Self {
            rounds: (0..rounds).map(|_| round(dice, true)).collect(),
            signals: 1 + dice.roll(3) as usize,
            chain: if dice.chance(30) { 1 + dice.roll(2) as usize } else { 0 },
        }
    }

    /// Waits for one signal, which its parent sends.
    fn random_child(dice: &mut Dice) -> Self {
        Self { rounds: vec![round(dice, false)], signals: 1, chain: usize::from(dice.chance(25)) }
    }

    pub(super) fn read(json: &str) -> Self {
        serde_json::from_str(json).unwrap()
    }

    pub(super) fn write(&self) -> String {
        serde_json::to_string(self).unwrap()
    }

    fn next_in_chain(&self) -> Self {
        Self { rounds: self.rounds.clone(), signals: 0, chain: self.chain - 1 }
    }
}

fn round(dice: &mut Dice, with_children: bool) -> Vec<Action> {
    let action = |dice: &mut Dice| match dice.roll(if with_children { 10 } else { 8 }) {
        0..3 => Action::Once,
        3..5 => Action::Again,
        5..7 => Action::Timer { ms: 5 + dice.roll(200) },
        7 => Action::LongTimer,
        _ => Action::Child(Plan::random_child(dice)),
    };
    // At least one timer, so that there is an event after which the next round can begin.
    let mut actions = vec![Action::Timer { ms: 5 + dice.roll(100) }];
    actions.extend((0..dice.roll(4)).map(|_| action(dice)));
    actions
}

/// The state of a run, from its history.
#[derive(Default)]
struct Seen {
    plan: Option<Plan>,
    workflow_id: String,
    rounds: usize,
    signals: usize,
    /// Activities, children and signals to them that have not ended, by the event that began them.
    open: BTreeSet<i64>,
    timers: BTreeMap<i64, String>,
    /// Children that wait for their signal.
    waiting: BTreeMap<i64, WorkflowExecution>,
}

impl Seen {
    fn of(history: &[HistoryEvent]) -> Self {
        let mut seen = Self::default();
        for event in history {
            seen.add(event.event_id, event.attributes.as_ref().unwrap());
        }
        seen
    }

    fn add(&mut self, id: i64, attributes: &E) {
        match attributes {
            E::WorkflowExecutionStartedEventAttributes(a) => {
                self.plan = Some(Plan::read(&text(a.input.as_ref())));
                self.workflow_id.clone_from(&a.workflow_id);
            }
            E::MarkerRecordedEventAttributes(a) if a.marker_name == ROUND => self.rounds += 1,
            E::WorkflowExecutionSignaledEventAttributes(_) => self.signals += 1,
            E::ActivityTaskScheduledEventAttributes(_) => _ = self.open.insert(id),
            E::ActivityTaskCompletedEventAttributes(a) => _ = self.open.remove(&a.scheduled_event_id),
            E::ActivityTaskFailedEventAttributes(a) => _ = self.open.remove(&a.scheduled_event_id),
            E::ActivityTaskTimedOutEventAttributes(a) => _ = self.open.remove(&a.scheduled_event_id),
            E::TimerStartedEventAttributes(a) => _ = self.timers.insert(id, a.timer_id.clone()),
            E::TimerFiredEventAttributes(a) => _ = self.timers.remove(&a.started_event_id),
            E::TimerCanceledEventAttributes(a) => _ = self.timers.remove(&a.started_event_id),
            E::StartChildWorkflowExecutionInitiatedEventAttributes(_) => _ = self.open.insert(id),
            E::ChildWorkflowExecutionStartedEventAttributes(a) => {
                self.waiting.insert(a.initiated_event_id, a.workflow_execution.clone().unwrap());
            }
            E::SignalExternalWorkflowExecutionInitiatedEventAttributes(a) => {
                self.open.insert(id);
                let signalled = a.workflow_execution.as_ref().unwrap();
                self.waiting.retain(|_, child| child.workflow_id != signalled.workflow_id);
            }
            E::ExternalWorkflowExecutionSignaledEventAttributes(a) => _ = self.open.remove(&a.initiated_event_id),
            E::ChildWorkflowExecutionCompletedEventAttributes(a) => _ = self.open.remove(&a.initiated_event_id),
            _ => {}
        }
    }
}

/// The commands that follow from a history. The id identifies this completion.
pub(super) fn decide(history: &[HistoryEvent], decision_id: &str) -> Vec<Command> {
    let mut seen = Seen::of(history);
    let plan = seen.plan.take().expect("a history begins with the start");
    let mut commands = vec![marker(DECISION, decision_id)];
    commands.extend(seen.waiting.values().map(signal_child));
    let long = |id: &String| id.starts_with("long");
    if !seen.open.is_empty() || seen.timers.values().any(|id| !long(id)) {
        return commands;
    }
    let ends = seen.rounds == plan.rounds.len();
    if ends && seen.signals < plan.signals {
        return commands;
    }
    commands.extend(seen.timers.into_values().map(cancel_timer));
    if !ends {
        commands.push(marker(ROUND, &seen.rounds.to_string()));
        let actions = plan.rounds[seen.rounds].iter().enumerate();
        commands.extend(actions.map(|(n, action)| action.begin(&seen.workflow_id, &format!("{}-{n}", seen.rounds))));
    } else if plan.chain > 0 {
        commands.push(continue_as_new(&plan.next_in_chain()));
    } else {
        commands.push(complete());
    }
    commands
}

impl Action {
    fn begin(&self, workflow_id: &str, id: &str) -> Command {
        match self {
            Self::Once => activity(ONCE, id, 1, TASK_TIMEOUT),
            Self::Again => activity(AGAIN, id, 0, TASK_TIMEOUT),
            Self::Timer { ms } => timer(id.to_owned(), *ms),
            Self::LongTimer => timer(format!("long-{id}"), 600_000),
            Self::Child(plan) => {
                start_child(&format!("{workflow_id}/{}/{id}", uuid::Uuid::new_v4().simple()), &plan.write())
            }
        }
    }
}

fn command(attributes: Do) -> Command {
    let kind = match &attributes {
        Do::RecordMarkerCommandAttributes(_) => CommandType::RecordMarker,
        Do::ScheduleActivityTaskCommandAttributes(_) => CommandType::ScheduleActivityTask,
        Do::StartTimerCommandAttributes(_) => CommandType::StartTimer,
        Do::CancelTimerCommandAttributes(_) => CommandType::CancelTimer,
        Do::StartChildWorkflowExecutionCommandAttributes(_) => CommandType::StartChildWorkflowExecution,
        Do::SignalExternalWorkflowExecutionCommandAttributes(_) => CommandType::SignalExternalWorkflowExecution,
        Do::ContinueAsNewWorkflowExecutionCommandAttributes(_) => CommandType::ContinueAsNewWorkflowExecution,
        _ => CommandType::CompleteWorkflowExecution,
    };
    Command { command_type: kind as i32, attributes: Some(attributes), ..Command::default() }
}

fn marker(name: &str, value: &str) -> Command {
    command(Do::RecordMarkerCommandAttributes(RecordMarkerCommandAttributes {
        marker_name: name.to_owned(),
        details: [("id".to_owned(), payloads(value).unwrap())].into(),
        ..RecordMarkerCommandAttributes::default()
    }))
}

pub(super) fn activity(kind: &str, id: &str, maximum_attempts: i32, timeout: u64) -> Command {
    command(Do::ScheduleActivityTaskCommandAttributes(ScheduleActivityTaskCommandAttributes {
        activity_id: id.to_owned(),
        activity_type: Some(ActivityType { name: kind.to_owned() }),
        task_queue: queue(QUEUE),
        start_to_close_timeout: milliseconds(timeout),
        retry_policy: Some(RetryPolicy {
            initial_interval: milliseconds(10),
            backoff_coefficient: 1.0,
            maximum_attempts,
            ..RetryPolicy::default()
        }),
        ..ScheduleActivityTaskCommandAttributes::default()
    }))
}

/// An activity with a long timeout and this heartbeat timeout.
pub(super) fn heartbeating_activity(kind: &str, id: &str, silence: u64) -> Command {
    let mut activity = activity(kind, id, 0, 3_600_000);
    if let Some(Do::ScheduleActivityTaskCommandAttributes(attributes)) = &mut activity.attributes {
        attributes.heartbeat_timeout = milliseconds(silence);
    }
    activity
}

pub(super) fn timer(timer_id: String, ms: u64) -> Command {
    let start_to_fire_timeout = milliseconds(ms);
    command(Do::StartTimerCommandAttributes(StartTimerCommandAttributes { timer_id, start_to_fire_timeout }))
}

fn cancel_timer(timer_id: String) -> Command {
    command(Do::CancelTimerCommandAttributes(CancelTimerCommandAttributes { timer_id }))
}

pub(super) fn signal_child(child: &WorkflowExecution) -> Command {
    command(Do::SignalExternalWorkflowExecutionCommandAttributes(SignalExternalWorkflowExecutionCommandAttributes {
        execution: Some(child.clone()),
        signal_name: GO.to_owned(),
        ..SignalExternalWorkflowExecutionCommandAttributes::default()
    }))
}

pub(super) fn start_child(workflow_id: &str, input: &str) -> Command {
    command(Do::StartChildWorkflowExecutionCommandAttributes(StartChildWorkflowExecutionCommandAttributes {
        workflow_id: workflow_id.to_owned(),
        workflow_type: Some(WorkflowType { name: WORKFLOW.to_owned() }),
        task_queue: queue(QUEUE),
        input: payloads(input),
        workflow_task_timeout: milliseconds(TASK_TIMEOUT),
        ..StartChildWorkflowExecutionCommandAttributes::default()
    }))
}

pub(super) fn complete() -> Command {
    let result = payloads("\"done\"");
    command(Do::CompleteWorkflowExecutionCommandAttributes(CompleteWorkflowExecutionCommandAttributes { result }))
}

fn continue_as_new(plan: &Plan) -> Command {
    command(Do::ContinueAsNewWorkflowExecutionCommandAttributes(ContinueAsNewWorkflowExecutionCommandAttributes {
        workflow_type: Some(WorkflowType { name: WORKFLOW.to_owned() }),
        task_queue: queue(QUEUE),
        input: payloads(&plan.write()),
        workflow_task_timeout: milliseconds(TASK_TIMEOUT),
        ..ContinueAsNewWorkflowExecutionCommandAttributes::default()
    }))
}
