//! A circuit breaker as a pure state machine: a provider that fails every time is left alone for a while.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ErrorClass;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BreakerOptions {
    /// After this many failures in a row without a success no call is made.
    pub failures: u32,
    /// For how long. Then one call tries whether the provider is back.
    pub cool_down_seconds: u32,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self { failures: 5, cool_down_seconds: 30 }
    }
}

#[derive(Debug)]
pub(super) struct Breaker {
    options: BreakerOptions,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Duration,
    },
    /// One call is trying the provider; the others are refused.
    HalfOpen,
}

/// An admitted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    /// It is the one that tries the provider.
    is_probe: bool,
}

/// What a call says about its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    Works,
    Fails,
    /// It answered, but refused this call.
    Answers,
    /// The call ended for a reason of its own.
    Nothing,
}

impl Evidence {
    pub(super) fn of(class: ErrorClass) -> Self {
        match class {
            ErrorClass::Overloaded | ErrorClass::Server | ErrorClass::Timeout | ErrorClass::UpstreamDeadline => {
                Self::Fails
            }
            ErrorClass::RateLimit
            | ErrorClass::ContextWindow
            | ErrorClass::Truncation
            | ErrorClass::InvalidRequest
            | ErrorClass::Auth
            | ErrorClass::StructuredOutputSchemaRejected => Self::Answers,
            ErrorClass::LocalTimeout | ErrorClass::Unknown | ErrorClass::Cancelled => Self::Nothing,
        }
    }
}

impl Breaker {
    pub(super) fn new(options: BreakerOptions) -> Self {
        Self { options, state: State::Closed { failures: 0 } }
    }

    /// How long calls are still refused, if they are.
    pub(super) fn refuses(&self, now: Duration) -> Option<Duration> {
        match self.state {
            State::Closed { .. } => None,
            State::Open { until } => until.checked_sub(now).filter(|rest| !rest.is_zero()),
            // If the probe fails, it is this long.
            State::HalfOpen => Some(self.cool_down()),
        }
    }

    /// Admits a call, or says how long calls are still refused.
    pub(super) fn admit(&mut self, now: Duration) -> Result<Ticket, Duration> {
        if let Some(rest) = self.refuses(now) {
            return Err(rest);
        }
        let is_probe = matches!(self.state, State::Open { .. });
        if is_probe {
            self.state = State::HalfOpen;
        }
        Ok(Ticket { is_probe })
    }

    pub(super) fn record(&mut self, ticket: Ticket, evidence: Evidence, now: Duration) {
        let open = State::Open { until: now + self.cool_down() };
        self.state = match (self.state, evidence) {
            (_, Evidence::Works) => State::Closed { failures: 0 },
            (State::Closed { failures }, Evidence::Fails) if failures + 1 >= self.options.failures => open,
            (State::Closed { failures }, Evidence::Fails) => State::Closed { failures: failures + 1 },
            (State::HalfOpen, Evidence::Fails) if ticket.is_probe => open,
            (State::HalfOpen, Evidence::Answers) if ticket.is_probe => State::Closed { failures: 0 },
            // The next call tries it.
            (State::HalfOpen, Evidence::Nothing) if ticket.is_probe => State::Open { until: now },
            // A call from before it opened, or one that says nothing.
            (state, _) => state,
        };
    }

    fn cool_down(&self) -> Duration {
        Duration::from_secs(u64::from(self.options.cool_down_seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// What happens at a second: a call is made and ends at once, or is refused for so many seconds.
    enum Step {
        Call(Evidence),
        Refused(u64),
    }

    #[test]
    fn sequences_of_calls_open_and_close_it() {
        use Evidence::{Answers, Fails, Nothing, Works};
        use Step::{Call, Refused};
        let table: [(&str, Vec<(u64, Step)>); 7] = [
            (
                "fewer failures than the limit",
                vec![
                    (0, Call(Fails)),
                    (1, Call(Fails)),
                    (2, Call(Works)),
                    (3, Call(Fails)),
                    (4, Call(Fails)),
                    (5, Call(Works)),
                ],
            ),
            (
                "as many failures as the limit",
                vec![
                    (0, Call(Fails)),
                    (1, Call(Fails)),
                    (2, Call(Fails)),
                    (2, Refused(30)),
                    (12, Refused(20)),
                    (31, Refused(1)),
                    (32, Call(Works)),
                    (33, Call(Fails)),
                    (34, Call(Works)),
                ],
            ),
            (
                "the probe fails",
                vec![
                    (0, Call(Fails)),
                    (0, Call(Fails)),
                    (0, Call(Fails)),
                    (30, Call(Fails)),
                    (31, Refused(29)),
                    (60, Call(Works)),
                    (61, Call(Works)),
                ],
            ),
            (
                "refusals do not count",
                vec![
                    (0, Call(Fails)),
                    (0, Call(Fails)),
                    (0, Call(Answers)),
                    (0, Call(Nothing)),
                    (0, Call(Fails)),
                    (0, Refused(30)),
                ],
            ),
            (
                "a refusal is a success of the probe",
                vec![
                    (0, Call(Fails)),
                    (0, Call(Fails)),
                    (0, Call(Fails)),
                    (30, Call(Answers)),
                    (30, Call(Fails)),
                    (30, Call(Works)),
                ],
            ),
            (
                "a cancelled probe is repeated",
                vec![
                    (0, Call(Fails)),
                    (0, Call(Fails)),
                    (0, Call(Fails)),
                    (30, Call(Nothing)),
                    (30, Call(Works)),
                    (30, Call(Works)),
                ],
            ),
            (
                "a success in between",
                vec![
                    (0, Call(Fails)),
                    (0, Call(Fails)),
                    (0, Call(Works)),
                    (0, Call(Fails)),
                    (0, Call(Fails)),
                    (0, Call(Fails)),
                    (1, Refused(29)),
                ],
            ),
        ];
        for (what, steps) in table {
            let mut breaker = Breaker::new(BreakerOptions { failures: 3, cool_down_seconds: 30 });
            for (number, (at, step)) in steps.into_iter().enumerate() {
                let admitted = breaker.admit(seconds(at));
                match step {
                    Call(evidence) => breaker.record(admitted.unwrap(), evidence, seconds(at)),
                    Refused(rest) => assert_eq!(admitted, Err(seconds(rest)), "{what}, step {number}"),
                }
            }
        }
    }

    #[test]
    fn one_probe_at_a_time_and_older_calls_do_not_decide_for_it() {
        let mut breaker = Breaker::new(BreakerOptions { failures: 1, cool_down_seconds: 30 });
        let older: Vec<Ticket> = (0..3).map(|_| breaker.admit(seconds(0)).unwrap()).collect();
        breaker.record(older[0], Evidence::Fails, seconds(1));
        let probe = breaker.admit(seconds(31)).unwrap();
        assert_eq!(breaker.admit(seconds(32)), Err(seconds(30)));
        for evidence in [Evidence::Fails, Evidence::Answers, Evidence::Nothing] {
            breaker.record(older[1], evidence, seconds(33));
            assert_eq!(breaker.refuses(seconds(33)), Some(seconds(30)), "the probe is still on its way");
        }
        breaker.record(probe, Evidence::Fails, seconds(34));
        assert_eq!(breaker.refuses(seconds(35)), Some(seconds(29)));
        // An answer that took long is an answer.
        breaker.record(older[2], Evidence::Works, seconds(36));
        assert_eq!(breaker.refuses(seconds(36)), None);
    }

    #[test]
    fn only_failures_of_the_provider_count() {
        let failing = [ErrorClass::Overloaded, ErrorClass::Server, ErrorClass::Timeout, ErrorClass::UpstreamDeadline];
        assert!(failing.into_iter().all(|class| Evidence::of(class) == Evidence::Fails));
        for class in [ErrorClass::RateLimit, ErrorClass::Auth, ErrorClass::InvalidRequest, ErrorClass::ContextWindow] {
            assert_eq!(Evidence::of(class), Evidence::Answers);
        }
        assert_eq!(Evidence::of(ErrorClass::Cancelled), Evidence::Nothing);
    }

    #[test]
    fn the_defaults_are_five_failures_and_half_a_minute() {
        let options: BreakerOptions = serde_json::from_str("{}").unwrap();
        assert_eq!(options, BreakerOptions { failures: 5, cool_down_seconds: 30 });
    }
}
