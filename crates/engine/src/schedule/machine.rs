//! A schedule as a state machine: time passes, requests come, started workflows end, and actions are decided.
//!
//! A turn takes everything that is due at `now` into the buffer and decides what to start. The caller stores the
//! decision, executes it, and reports what came of it.

use prost_wkt_types::Timestamp;
use temporalio_protos::temporal::api::{
    common::v1::{Payloads, SearchAttributes, WorkflowExecution},
    enums::v1::{ScheduleOverlapPolicy as Policy, WorkflowExecutionStatus as Status},
    failure::v1::Failure,
    schedule::v1::{
        BackfillRequest, Schedule, ScheduleActionResult, ScheduleInfo, SchedulePatch, SchedulePolicies,
        ScheduleState as Switches, schedule_action::Action,
    },
    workflow::v1::NewWorkflowExecutionInfo,
};

use super::{
    overlap,
    state::{BufferedStart, DecidedStart, ScheduleState},
    times::{ActionTime, Times},
};
use crate::time::{Nanos, SECOND, duration, moment, span, timestamp};

const DAY: Nanos = 24 * 3600 * SECOND;
const DEFAULT_CATCHUP_WINDOW: Nanos = 365 * DAY;
const SHORTEST_CATCHUP_WINDOW: Nanos = 10 * SECOND;
/// How long a schedule is kept that has nothing left to do.
const KEPT_IDLE: Nanos = 7 * DAY;
const BUFFER: usize = 1000;
const BACKFILLED_PER_TURN: usize = 10;
const RECENT_ACTIONS: usize = 10;
const REQUEST_IDS: usize = 100;
pub(super) const FIRST_CONFLICT_TOKEN: i64 = 1;

/// A change that a client asks for.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Update { schedule: Box<Schedule>, search_attributes: Option<SearchAttributes>, conflict_token: i64 },
    Patch(SchedulePatch),
}

/// How a started workflow ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Ended {
    /// `Unspecified` if the workflow is not found any more.
    pub(crate) status: Status,
    pub(crate) result: Option<Payloads>,
    pub(crate) failure: Option<Failure>,
}

/// What the caller has to do besides the decided starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) cancels: bool,
    pub(crate) terminates: bool,
    /// Something was taken from the buffer and not started, so there may be more to decide.
    pub(crate) again: bool,
}

pub(crate) struct Machine {
    pub(crate) state: ScheduleState,
    /// `None` if the spec is invalid, for example because a time zone is not known any more.
    times: Option<Times>,
    /// The next action time, as of the last turn.
    next: Option<Nanos>,
    now: Nanos,
}

impl Machine {
    /// A new schedule; the caller has checked the request.
    pub(crate) fn create(mut state: ScheduleState, namespace_id: &str, now: Nanos) -> Self {
        state.conflict_token = FIRST_CONFLICT_TOKEN;
        state.processed_until = now;
        state.info.get_or_insert_with(ScheduleInfo::default).create_time = Some(timestamp(now));
        fill_in(state.schedule.get_or_insert_with(Schedule::default));
        Self::new(state, namespace_id, now)
    }

    pub(crate) fn new(state: ScheduleState, namespace_id: &str, now: Nanos) -> Self {
        let mut machine = Self { state, times: None, next: None, now };
        machine.compile(namespace_id);
        machine
    }

    #[allow(deprecated, reason = "clients may still read invalid_schedule_error")]
    fn compile(&mut self, namespace_id: &str) {
        let seed = format!("{namespace_id}-{}", self.state.schedule_id);
        let spec = self.schedule().spec.clone().unwrap_or_default();
        let compiled = Times::new(spec, seed);
        self.info().invalid_schedule_error = compiled.as_ref().err().cloned().unwrap_or_default();
        self.times = compiled.ok();
    }

    /// Whether this request was executed before. Remembers it.
    pub(crate) fn is_repeated(&mut self, request_id: &str) -> bool {
        if request_id.is_empty() {
            return false;
        }
        let known = &mut self.state.request_ids;
        if known.iter().any(|known| known == request_id) {
            return true;
        }
        known.push(request_id.to_owned());
        let old = known.len().saturating_sub(REQUEST_IDS);
        known.drain(..old);
        false
    }

    /// Takes what is due into the buffer, applies a change, and takes the next part of the backfills.
    pub(crate) fn turn(&mut self, change: Option<Change>, namespace_id: &str) {
        let since = self.state.processed_until;
        let now = self.now.max(since);
        let (next, last_action) = self.process(since, now, Policy::Unspecified, false, None);
        self.state.processed_until = last_action;
        self.next = next;
        match change {
            Some(Change::Patch(patch)) => self.patch(patch),
            Some(Change::Update { schedule, search_attributes, conflict_token }) => {
                if conflict_token == 0 || conflict_token == self.state.conflict_token {
                    self.update(*schedule, search_attributes, namespace_id);
                }
                let since = self.state.processed_until;
                (self.next, _) = self.process(since, now, Policy::Unspecified, false, None);
            }
            None => {}
        }
        self.backfill();
    }

    fn update(&mut self, schedule: Schedule, search_attributes: Option<SearchAttributes>, namespace_id: &str) {
        let mut schedule = schedule;
        fill_in(&mut schedule);
        self.state.schedule = Some(schedule);
        self.compile(namespace_id);
        // Absent attributes stay as they are; present ones replace all.
        if search_attributes.is_some() {
            self.state.search_attributes = search_attributes;
        }
        let now = timestamp(self.now);
        self.info().update_time = Some(now);
        self.state.conflict_token += 1;
    }

    fn patch(&mut self, patch: SchedulePatch) {
        if let Some(trigger) = patch.trigger_immediately {
            let at = match moment(trigger.scheduled_time.as_ref()) {
                0 => self.now,
                at => at,
            };
            self.add(ActionTime { nominal: at, actual: at }, trigger.overlap_policy(), true);
        }
        for mut backfill in patch.backfill_request {
            // The start is inclusive.
            let start = moment(backfill.start_time.as_ref()) - SECOND / 1000;
            backfill.start_time = Some(timestamp(start));
            if self.state.backfills.len() >= BUFFER {
                self.info().buffer_dropped += 1;
            } else {
                self.state.backfills.push(backfill);
            }
        }
        for (notes, paused) in [(patch.pause, true), (patch.unpause, false)] {
            if !notes.is_empty() {
                self.pause(paused, notes);
            }
        }
    }

    fn pause(&mut self, paused: bool, notes: String) {
        let switches = self.switches();
        switches.paused = paused;
        switches.notes = notes;
        self.state.conflict_token += 1;
    }

    /// Buffers the actions after `start` up to `end`. Returns the next action time, and until when times are processed.
    fn process(
        &mut self,
        start: Nanos,
        end: Nanos,
        policy: Policy,
        manual: bool,
        mut limit: Option<&mut usize>,
    ) -> (Option<Nanos>, Nanos) {
        let Some(times) = self.times.clone() else { return (None, end) };
        // A search that was given up means no further action until the spec is changed.
        let following = |after: Nanos| times.next(after).ok().flatten();
        if !manual && !self.may_act() {
            return (following(end).map(|next| next.actual), end);
        }
        let window = catchup_window(self.schedule().policies.as_ref());
        let updated = moment(self.info().update_time.as_ref());
        let mut last_action = start;
        let mut next = following(start);
        while let Some(time) = next.filter(|next| next.actual <= end) {
            if !manual && updated > time.actual {
                // It was due before the update.
            } else if !manual && end - time.actual > window {
                self.info().missed_catchup_window += 1;
            } else {
                self.add(time, policy, manual);
                last_action = time.actual;
                if let Some(limit) = limit.as_mut() {
                    **limit = limit.saturating_sub(1);
                    if **limit == 0 {
                        break;
                    }
                }
            }
            next = following(time.actual);
        }
        (next.map(|next| next.actual), last_action)
    }

    fn backfill(&mut self) {
        let mut limit = BACKFILLED_PER_TURN;
        // One half of the buffer is left to the spec.
        while limit > 0
            && self.state.buffer.len() < BUFFER / 2
            && let Some(backfill) = self.state.backfills.first().copied()
        {
            let (start, end) = (moment(backfill.start_time.as_ref()), moment(backfill.end_time.as_ref()));
            let (next, _) = self.process(start, end, backfill.overlap_policy(), true, Some(&mut limit));
            match (next.filter(|next| *next <= end), self.state.backfills.first_mut()) {
                (Some(next), Some(backfill)) => backfill.start_time = Some(timestamp(next)),
                _ => {
                    self.state.backfills.remove(0);
                }
            }
        }
    }

    fn add(&mut self, time: ActionTime, policy: Policy, manual: bool) {
        if self.state.buffer.len() >= BUFFER {
            self.info().buffer_dropped += 1;
            return;
        }
        let ActionTime { nominal, actual } = time;
        self.state.buffer.push(BufferedStart { nominal, actual, policy: policy as i32, manual });
    }

    /// Decides about the buffer. The starts are in `state.starting`.
    pub(crate) fn decide(&mut self, new_id: &dyn Fn() -> String) -> Decision {
        let buffer = std::mem::take(&mut self.state.buffer);
        if self.action().is_none() || buffer.is_empty() {
            return Decision::default();
        }
        let own = self.schedule().policies.as_ref().map(SchedulePolicies::overlap_policy).unwrap_or_default();
        let is_running = !self.info().running_workflows.is_empty();
        let sorted = overlap::sort(buffer, is_running, |policy| resolved(policy, own));
        self.state.buffer = sorted.kept;
        self.info().overlap_skipped += sorted.skipped;
        let mut again = false;
        let starts = sorted.overlapping.into_iter().map(|start| (start, false));
        for (start, alone) in starts.chain(sorted.alone.map(|start| (start, true))) {
            if start.manual || self.take_action() {
                self.state.starting.push(DecidedStart { start, request_id: new_id(), alone });
            } else {
                again = true;
            }
        }
        Decision { cancels: sorted.cancels && !sorted.terminates, terminates: sorted.terminates, again }
    }

    /// Counts an action that the spec asks for, if the schedule may take one.
    fn take_action(&mut self) -> bool {
        if !self.may_act() {
            return false;
        }
        let switches = self.switches();
        if switches.limited_actions {
            switches.remaining_actions -= 1;
            self.state.conflict_token += 1;
        }
        true
    }

    fn may_act(&self) -> bool {
        let state = self.state.schedule.as_ref().and_then(|schedule| schedule.state.as_ref());
        state.is_none_or(|state| !state.paused && (!state.limited_actions || state.remaining_actions > 0))
    }

    /// Records a start; the workflow runs since `at`.
    pub(crate) fn started(&mut self, decided: &DecidedStart, workflow_id: String, run_id: String, at: Nanos) {
        self.forget_start(&decided.request_id);
        let execution = WorkflowExecution { workflow_id, run_id };
        let info = self.info();
        info.action_count += 1;
        info.recent_actions.push(ScheduleActionResult {
            schedule_time: Some(timestamp(decided.start.actual)),
            actual_time: Some(timestamp(at)),
            start_workflow_result: Some(execution.clone()),
            start_workflow_status: Status::Running as i32,
        });
        let old = info.recent_actions.len().saturating_sub(RECENT_ACTIONS);
        info.recent_actions.drain(..old);
        if decided.alone {
            info.running_workflows.push(execution);
        }
    }

    /// Removes a start that was recorded or refused.
    pub(crate) fn forget_start(&mut self, request_id: &str) {
        self.state.starting.retain(|start| start.request_id != request_id);
    }

    /// Records the end of a workflow that the schedule has started.
    pub(crate) fn ended(&mut self, workflow_id: &str, ended: Ended) {
        let info = self.info();
        info.running_workflows.retain(|running| running.workflow_id != workflow_id);
        let is_it = |action: &&mut ScheduleActionResult| {
            action.start_workflow_result.as_ref().is_some_and(|started| started.workflow_id == workflow_id)
        };
        if let Some(action) = info.recent_actions.iter_mut().find(is_it) {
            action.start_workflow_status = ended.status as i32;
        }
        let pauses = self.schedule().policies.as_ref().is_some_and(|policies| policies.pause_on_failure);
        if pauses && !self.switches().paused {
            let message = ended.failure.as_ref().map_or("", |failure| &failure.message);
            match ended.status {
                Status::Failed => self.pause(true, format!("paused due to workflow failure: {workflow_id}: {message}")),
                Status::TimedOut => self.pause(true, format!("paused due to workflow timeout: {workflow_id}")),
                _ => {}
            }
        }
        if ended.result.is_some() {
            self.state.last_completion_result = ended.result;
            self.state.continued_failure = None;
        } else if ended.failure.is_some() {
            self.state.continued_failure = ended.failure;
        }
    }

    /// Result and failure that a start gets from the runs before it. Runs that may overlap have none.
    pub(crate) fn carried(&self, start: &BufferedStart) -> (Option<Payloads>, Option<Failure>) {
        if start.overlap_policy() == Policy::AllowAll {
            return (None, None);
        }
        (self.state.last_completion_result.clone(), self.state.continued_failure.clone())
    }

    /// When the next turn is due.
    pub(crate) fn alarm(&self) -> Option<Nanos> {
        let next = if self.backfills_at_once() {
            Some(self.now + SECOND)
        } else if self.may_act() {
            self.next
        } else {
            None
        };
        self.idle_until(next).or(next)
    }

    /// Whether the schedule has had nothing to do for so long that it ends.
    pub(crate) fn is_over(&self) -> bool {
        self.idle_until(self.next).is_some_and(|until| until <= self.now)
    }

    /// When a schedule ends that has nothing left to do; `None` if it has.
    fn idle_until(&self, next: Option<Nanos>) -> Option<Nanos> {
        let paused = self.state.schedule.as_ref().and_then(|schedule| schedule.state.as_ref());
        if paused.is_some_and(|state| state.paused) || next.is_some() && self.may_act() || self.backfills_at_once() {
            return None;
        }
        let info = self.state.info.as_ref();
        let last_action = info.and_then(|info| info.recent_actions.last()).and_then(|last| last.actual_time);
        let others = info.map(|info| [info.create_time, info.update_time]).unwrap_or_default();
        let last = others.into_iter().chain([last_action]).map(|at| moment(at.as_ref())).max().unwrap_or_default();
        Some(last + KEPT_IDLE)
    }

    fn backfills_at_once(&self) -> bool {
        let policies = self.state.schedule.as_ref().and_then(|schedule| schedule.policies.as_ref());
        let own = policies.map(SchedulePolicies::overlap_policy).unwrap_or_default();
        let first = self.state.backfills.first().map(BackfillRequest::overlap_policy);
        first.is_some_and(|policy| resolved(policy, own) == Policy::AllowAll)
    }

    /// The next action times, at most this many.
    pub(crate) fn future_times(&self, most: usize) -> Vec<Timestamp> {
        let Some(times) = &self.times else { return Vec::new() };
        let switches = self.state.schedule.as_ref().and_then(|schedule| schedule.state.as_ref());
        let most = match switches {
            Some(state) if state.limited_actions => most.min(usize::try_from(state.remaining_actions).unwrap_or(0)),
            _ => most,
        };
        let updated = self.state.info.as_ref().map_or(0, |info| moment(info.update_time.as_ref()));
        let mut found = Vec::new();
        let mut after = self.state.processed_until;
        while found.len() < most
            && let Ok(Some(next)) = times.next(after)
        {
            after = next.actual;
            if updated <= after {
                found.push(timestamp(after));
            }
        }
        found
    }

    pub(crate) fn times(&self) -> Option<&Times> {
        self.times.as_ref()
    }

    pub(crate) fn action(&self) -> Option<&NewWorkflowExecutionInfo> {
        match self.state.schedule.as_ref()?.action.as_ref()?.action.as_ref()? {
            Action::StartWorkflow(action) => Some(action),
        }
    }

    pub(crate) fn running(&self) -> Vec<WorkflowExecution> {
        self.state.info.as_ref().map(|info| info.running_workflows.clone()).unwrap_or_default()
    }

    fn schedule(&mut self) -> &mut Schedule {
        self.state.schedule.get_or_insert_with(Schedule::default)
    }

    fn switches(&mut self) -> &mut Switches {
        self.schedule().state.get_or_insert_with(Switches::default)
    }

    pub(super) fn info(&mut self) -> &mut ScheduleInfo {
        self.state.info.get_or_insert_with(ScheduleInfo::default)
    }
}

/// Fills in the defaults, so that replies show them.
fn fill_in(schedule: &mut Schedule) {
    schedule.spec.get_or_insert_default();
    schedule.action.get_or_insert_default();
    schedule.state.get_or_insert_default();
    let policies = schedule.policies.get_or_insert_default();
    policies.overlap_policy = resolved(policies.overlap_policy(), Policy::Unspecified) as i32;
    policies.catchup_window = Some(duration(catchup_window(Some(policies))));
}

fn catchup_window(policies: Option<&SchedulePolicies>) -> Nanos {
    match policies.and_then(|policies| policies.catchup_window.as_ref()) {
        None => DEFAULT_CATCHUP_WINDOW,
        window => span(window).max(SHORTEST_CATCHUP_WINDOW),
    }
}

fn resolved(policy: Policy, own: Policy) -> Policy {
    match (policy, own) {
        (Policy::Unspecified, Policy::Unspecified) => Policy::Skip,
        (Policy::Unspecified, own) => own,
        (policy, _) => policy,
    }
}
