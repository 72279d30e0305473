//! The stored state of Nexus operations.

use temporalio_protos::temporal::api::{
    enums::v1::{NexusOperationCancellationState as CancellationState, TimeoutType},
    failure::v1::Failure,
    history::v1::NexusOperationScheduledEventAttributes,
};

use crate::time::{Nanos, SECOND, span};

/// How long a request may take.
const REQUEST_TIMEOUT: Nanos = 10 * SECOND;
/// A request is not made with less time than this.
const SHORTEST_REQUEST: Nanos = 1_500_000_000;
/// The handler has this much less time, so that its time-out can still be reported.
const REPLY_ROOM: Nanos = SECOND;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NexusOperation {
    #[prost(string, tag = "1")]
    pub(crate) endpoint_id: String,
    #[prost(string, tag = "2")]
    pub(crate) endpoint: String,
    #[prost(string, tag = "3")]
    pub(crate) service: String,
    #[prost(string, tag = "4")]
    pub(crate) operation: String,
    #[prost(string, tag = "5")]
    pub(crate) request_id: String,
    #[prost(int64, tag = "6")]
    pub(crate) scheduled_time: Nanos,
    #[prost(int64, tag = "7")]
    pub(crate) schedule_to_close: Nanos,
    #[prost(int64, tag = "8")]
    pub(crate) schedule_to_start: Nanos,
    #[prost(int64, tag = "9")]
    pub(crate) start_to_close: Nanos,
    /// Zero before the handler has reported the start.
    #[prost(int64, tag = "10")]
    pub(crate) started_time: Nanos,
    #[prost(string, tag = "11")]
    pub(crate) token: String,
    /// The request to start the operation.
    #[prost(message, required, tag = "12")]
    pub(crate) start: Request,
    /// Present after the workflow has requested the cancellation.
    #[prost(message, optional, tag = "13")]
    pub(crate) cancellation: Option<Cancellation>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Cancellation {
    #[prost(int64, tag = "1")]
    pub(crate) requested_event_id: i64,
    /// Zero until the operation has started: there is nothing to send before.
    #[prost(int64, tag = "2")]
    pub(crate) requested_time: Nanos,
    #[prost(enumeration = "CancellationState", tag = "3")]
    pub(crate) state: i32,
    #[prost(message, required, tag = "4")]
    pub(crate) request: Request,
}

/// A request to a handler, which is repeated until it is answered.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Request {
    /// Attempts that have ended.
    #[prost(int32, tag = "1")]
    pub(crate) attempt: i32,
    #[prost(int64, tag = "2")]
    pub(crate) last_attempt_time: Nanos,
    #[prost(message, optional, tag = "3")]
    pub(crate) last_failure: Option<Failure>,
    #[prost(bool, tag = "4")]
    pub(crate) backing_off: bool,
    /// When the backoff ends or, for an attempt that was made, its time is up.
    #[prost(int64, tag = "5")]
    pub(crate) due: Nanos,
    /// Why the attempt was not made; it is given up at once.
    #[prost(enumeration = "Unsent", tag = "6")]
    pub(crate) unsent: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Unsent {
    /// It was made.
    No = 0,
    NotRegistered = 1,
    External = 2,
    TooLate = 3,
}

/// What is due for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::run) enum NexusDue {
    TimeOut(i32),
    Start,
    Cancel,
}

impl NexusOperation {
    pub(crate) fn scheduled(at: Nanos, scheduled: &NexusOperationScheduledEventAttributes) -> Self {
        Self {
            endpoint_id: scheduled.endpoint_id.clone(),
            endpoint: scheduled.endpoint.clone(),
            service: scheduled.service.clone(),
            operation: scheduled.operation.clone(),
            request_id: scheduled.request_id.clone(),
            scheduled_time: at,
            schedule_to_close: span(scheduled.schedule_to_close_timeout.as_ref()),
            schedule_to_start: span(scheduled.schedule_to_start_timeout.as_ref()),
            start_to_close: span(scheduled.start_to_close_timeout.as_ref()),
            ..Self::default()
        }
    }

    pub(crate) fn is_started(&self) -> bool {
        self.started_time != 0
    }

    /// The operation was started by the request that is pending.
    pub(crate) fn started(&mut self, at: Nanos, token: &str) {
        self.start.end_attempt(at, None);
        self.start.due = 0;
        self.start.backing_off = false;
        self.started_time = at;
        token.clone_into(&mut self.token);
        if let Some(cancellation) = &mut self.cancellation {
            cancellation.send(at);
        }
    }

    pub(crate) fn request_cancel(&mut self, at: Nanos, requested_event_id: i64) {
        let mut cancellation = Cancellation { requested_event_id, ..Cancellation::default() };
        if self.is_started() {
            cancellation.send(at);
        }
        self.cancellation = Some(cancellation);
    }

    /// The time that a request to start the operation has, and the time-out of the operation that limits it.
    pub(super) fn time_to_start(&self, now: Nanos) -> (Nanos, TimeoutType) {
        let left = |timeout: Nanos| self.scheduled_time.saturating_add(timeout) - now;
        match (self.schedule_to_start, self.schedule_to_close) {
            (0, 0) => (REQUEST_TIMEOUT, TimeoutType::Unspecified),
            (0, close) => (REQUEST_TIMEOUT.min(left(close)), TimeoutType::ScheduleToClose),
            (start, _) => (REQUEST_TIMEOUT.min(left(start)), TimeoutType::ScheduleToStart),
        }
    }

    pub(super) fn time_to_cancel(&self, now: Nanos) -> (Nanos, TimeoutType) {
        let mut time = (REQUEST_TIMEOUT, TimeoutType::Unspecified);
        if self.start_to_close > 0 {
            let left = self.started_time.saturating_add(self.start_to_close) - now;
            time = (time.0.min(left), TimeoutType::StartToClose);
        }
        if self.schedule_to_close > 0 {
            let left = self.scheduled_time.saturating_add(self.schedule_to_close) - now;
            time = (time.0.min(left), TimeoutType::ScheduleToClose);
        }
        time
    }

    /// What the handler is told of the time it has for the whole operation.
    pub(super) fn time_to_complete(&self, now: Nanos) -> Option<Nanos> {
        let close = (self.schedule_to_close > 0).then(|| self.scheduled_time + self.schedule_to_close - now);
        let run = (self.start_to_close > 0).then_some(self.start_to_close);
        close.into_iter().chain(run).min()
    }

    /// Calls `consider` with everything that will be due.
    pub(in crate::run) fn due(&self, mut consider: impl FnMut(Nanos, NexusDue)) {
        let mut timeout = |from: Nanos, span: Nanos, kind: TimeoutType| {
            if span > 0 {
                consider(from.saturating_add(span), NexusDue::TimeOut(kind as i32));
            }
        };
        timeout(self.scheduled_time, self.schedule_to_close, TimeoutType::ScheduleToClose);
        if self.is_started() {
            timeout(self.started_time, self.start_to_close, TimeoutType::StartToClose);
        } else {
            timeout(self.scheduled_time, self.schedule_to_start, TimeoutType::ScheduleToStart);
        }
        if !self.is_started() {
            consider(self.start.due, NexusDue::Start);
        }
        if let Some(cancellation) = self.cancellation.as_ref().filter(|cancellation| cancellation.is_pending()) {
            consider(cancellation.request.due, NexusDue::Cancel);
        }
    }
}

impl Cancellation {
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.state(), CancellationState::Scheduled | CancellationState::BackingOff)
    }

    fn send(&mut self, at: Nanos) {
        self.requested_time = at;
        self.set_state(CancellationState::Scheduled);
    }
}

impl Request {
    /// Makes an attempt that has this much time, unless that is too little.
    pub(super) fn make(&mut self, now: Nanos, time: Nanos) {
        self.backing_off = false;
        if time < SHORTEST_REQUEST {
            return self.give_up(now, Unsent::TooLate);
        }
        self.due = now.saturating_add(time - REPLY_ROOM);
    }

    /// The attempt cannot be made.
    pub(super) fn give_up(&mut self, now: Nanos, unsent: Unsent) {
        self.backing_off = false;
        self.set_unsent(unsent);
        self.due = now;
    }

    pub(super) fn end_attempt(&mut self, at: Nanos, failure: Option<Failure>) {
        self.attempt += 1;
        self.last_attempt_time = at;
        self.last_failure = failure;
    }

    /// Waits before the next attempt.
    pub(super) fn back_off(&mut self, now: Nanos, failure: Failure, chance: &dyn Fn(i64) -> i64) {
        self.end_attempt(now, Some(failure));
        self.backing_off = true;
        self.due = now.saturating_add(backoff(self.attempt, chance));
    }
}

/// The pause after this many attempts: it doubles from a second to an hour, less up to a fifth.
fn backoff(attempts: i32, chance: &dyn Fn(i64) -> i64) -> Nanos {
    const LONGEST: Nanos = 3600 * SECOND;
    let doublings = u32::try_from(attempts - 1).unwrap_or_default().min(12);
    let whole = (SECOND << doublings).min(LONGEST);
    let jitter = whole / 5;
    whole - jitter + chance(jitter)
}
