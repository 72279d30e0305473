//! A pretended world of a schedule: runs that take some time, a clock, and interruptions.

use std::{cell::Cell, collections::BTreeMap};

use prost::Message as _;
use temporalio_protos::temporal::api::{
    enums::v1::{ScheduleOverlapPolicy as Policy, WorkflowExecutionStatus as Status},
    failure::v1::Failure,
    schedule::v1::{IntervalSpec, Schedule, ScheduleAction, SchedulePolicies, ScheduleSpec, schedule_action::Action},
    workflow::v1::NewWorkflowExecutionInfo,
};

use super::super::{
    machine::{Change, Ended, Machine},
    state::ScheduleState,
};
use crate::time::{Nanos, SECOND, duration};

pub(super) const START: Nanos = 1_893_456_000 * SECOND;
const NAMESPACE: &str = "namespace";

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Started {
    pub(super) at: Nanos,
    pub(super) nominal: Nanos,
    pub(super) ends: Nanos,
    pub(super) fails: bool,
}

pub(super) struct World {
    pub(super) state: ScheduleState,
    pub(super) now: Nanos,
    /// By request id.
    pub(super) runs: BTreeMap<String, Started>,
    /// How long the next runs take, in turn.
    pub(super) lengths: Vec<Nanos>,
    /// Whether each turn is interrupted after its starts, before their results are stored.
    pub(super) interrupted: bool,
    pub(super) failing: bool,
    ids: Cell<usize>,
}

pub(super) fn schedule(policy: Policy, interval: Nanos) -> Schedule {
    let interval = IntervalSpec { interval: Some(duration(interval)), phase: None };
    let action = NewWorkflowExecutionInfo { workflow_id: "run".to_owned(), ..NewWorkflowExecutionInfo::default() };
    Schedule {
        spec: Some(ScheduleSpec { interval: vec![interval], ..ScheduleSpec::default() }),
        action: Some(ScheduleAction { action: Some(Action::StartWorkflow(action)) }),
        policies: Some(SchedulePolicies { overlap_policy: policy as i32, ..SchedulePolicies::default() }),
        state: None,
    }
}

impl World {
    pub(super) fn new(schedule: Schedule, lengths: Vec<Nanos>) -> Self {
        let state = ScheduleState { schedule: Some(schedule), ..ScheduleState::default() };
        let state = Machine::create(state, NAMESPACE, START).state;
        let (runs, ids) = (BTreeMap::new(), Cell::new(0));
        let mut world = Self { state, now: START, runs, lengths, interrupted: false, failing: false, ids };
        world.turn(None);
        world
    }

    /// Goes on until this time, with a turn at every alarm and at every end of a run.
    pub(super) fn run_until(&mut self, end: Nanos) {
        loop {
            let alarm = self.machine_with_next().alarm();
            let ends = self.runs.values().map(|run| run.ends).filter(|ends| *ends > self.now).min();
            let next = alarm.into_iter().chain(ends).min().unwrap_or(Nanos::MAX);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next.max(self.now);
            self.turn(None);
        }
    }

    /// The alarm is computed by a turn without anything due.
    fn machine_with_next(&self) -> Machine {
        let mut machine = Machine::new(self.state.clone(), NAMESPACE, self.now);
        machine.turn(None, NAMESPACE);
        machine
    }

    pub(super) fn turn(&mut self, change: Option<Change>) {
        let mut machine = Machine::new(self.state.clone(), NAMESPACE, self.now);
        self.execute(&mut machine);
        machine.turn(change, NAMESPACE);
        self.look(&mut machine);
        loop {
            let decision = machine.decide(&|| {
                self.ids.set(self.ids.get() + 1);
                format!("request {}", self.ids.get())
            });
            self.state = stored(&machine.state);
            self.execute(&mut machine);
            if self.interrupted {
                // The process ends here; the next one finds what was stored before.
                machine = Machine::new(self.state.clone(), NAMESPACE, self.now);
                self.execute(&mut machine);
            }
            self.state = stored(&machine.state);
            if decision.cancels || decision.terminates {
                for running in machine.running() {
                    let run = self.runs.get_mut(&running.run_id).unwrap();
                    run.ends = run.ends.min(self.now + SECOND);
                }
            }
            if !decision.again {
                return;
            }
        }
    }

    fn execute(&mut self, machine: &mut Machine) {
        for decided in machine.state.starting.clone() {
            let (now, fails) = (self.now, self.failing);
            let count = self.runs.len();
            let ends = now + self.lengths[count % self.lengths.len()];
            let started = Started { at: now, nominal: decided.start.nominal, ends, fails };
            let run = self.runs.entry(decided.request_id.clone()).or_insert(started);
            machine.started(&decided, decided.request_id.clone(), decided.request_id.clone(), run.at);
        }
    }

    fn look(&mut self, machine: &mut Machine) {
        for running in machine.running() {
            let run = &self.runs[&running.run_id];
            if run.ends <= self.now {
                let failure = run.fails.then(|| Failure { message: "broken".to_owned(), ..Failure::default() });
                let status = if run.fails { Status::Failed } else { Status::Completed };
                machine.ended(&running.workflow_id, Ended { status, result: None, failure });
            }
        }
    }
}

fn stored(state: &ScheduleState) -> ScheduleState {
    ScheduleState::decode(&*state.encode_to_vec()).unwrap()
}
