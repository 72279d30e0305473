//! The rates of one provider and key together, as a pure state machine.

use std::time::Duration;

use super::{
    Limits,
    bucket::{Bucket, Receipt},
};

/// Requests and tokens per minute. A call is charged to both at once.
#[derive(Debug)]
pub(super) struct Rates {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// The provider answered that a rate is exceeded and when to come again.
    closed_until: Duration,
}

/// For correcting what a call was charged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Charge {
    requests: Option<Receipt>,
    tokens: Option<Receipt>,
}

/// Why a call has to wait, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) until: Duration,
    pub(super) reason: WaitReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitReason {
    Requests,
    Tokens,
    /// The provider asked for it.
    Asked,
}

impl Rates {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            requests: limits.requests_per_minute.map(Bucket::new),
            tokens: limits.tokens_per_minute.map(Bucket::new),
            closed_until: Duration::ZERO,
        }
    }

    pub(super) fn charge(&mut self, tokens: u64, now: Duration) -> Result<Charge, Wait> {
        let requests = self.requests.as_mut().and_then(|bucket| bucket.wait(1, now));
        let amount = self.tokens.as_mut().and_then(|bucket| bucket.wait(tokens, now));
        let asked = Some(self.closed_until).filter(|until| *until > now);
        let waits = [(requests, WaitReason::Requests), (amount, WaitReason::Tokens), (asked, WaitReason::Asked)];
        let longest = waits.into_iter().filter_map(|(until, reason)| Some(Wait { until: until?, reason }));
        if let Some(wait) = longest.max_by_key(|wait| wait.until) {
            return Err(wait);
        }
        Ok(Charge {
            requests: self.requests.as_mut().map(|bucket| bucket.take(1, now)),
            tokens: self.tokens.as_mut().map(|bucket| bucket.take(tokens, now)),
        })
    }

    /// Replaces the estimate by what the provider counted.
    pub(super) fn used(&mut self, charge: Charge, tokens: u64) {
        if let (Some(bucket), Some(receipt)) = (&mut self.tokens, charge.tokens) {
            bucket.correct(receipt, tokens);
        }
    }

    /// The call was not made.
    pub(super) fn give_back(&mut self, charge: Charge) {
        self.used(charge, 0);
        if let (Some(bucket), Some(receipt)) = (&mut self.requests, charge.requests) {
            bucket.correct(receipt, 0);
        }
    }

    /// No call until then: the provider would refuse it.
    pub(super) fn close_until(&mut self, until: Duration) {
        self.closed_until = self.closed_until.max(until);
    }

    /// Whether nothing is left to remember.
    pub(super) fn is_idle(&mut self, now: Duration) -> bool {
        let buckets = [&mut self.requests, &mut self.tokens];
        self.closed_until <= now && buckets.into_iter().flatten().all(|bucket| bucket.is_empty(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_call_waits_for_the_rate_that_takes_longest() {
        let limits = Limits { requests_per_minute: Some(2), tokens_per_minute: Some(100), ..Limits::default() };
        let mut rates = Rates::new(&limits);
        let wait = |until, reason| Some(Wait { until: seconds(until), reason });
        assert_eq!(rates.charge(50, seconds(0)).err(), None);
        assert_eq!(rates.charge(60, seconds(1)).err(), wait(60, WaitReason::Tokens));
        let second = rates.charge(10, seconds(2)).unwrap();
        assert_eq!(rates.charge(1, seconds(3)).err(), wait(60, WaitReason::Requests));
        rates.give_back(second);
        assert_eq!(rates.charge(50, seconds(4)).err(), None);
        rates.close_until(seconds(90));
        rates.close_until(seconds(80));
        assert_eq!(rates.charge(1, seconds(70)).err(), wait(90, WaitReason::Asked));
        assert!(!rates.is_idle(seconds(89)));
        assert!(rates.is_idle(seconds(90)));
    }

    #[test]
    fn a_provider_without_limits_is_closed_when_it_asks_for_it() {
        let mut rates = Rates::new(&Limits::default());
        assert_eq!(rates.charge(u64::MAX, seconds(0)).err(), None);
        rates.close_until(seconds(5));
        assert_eq!(rates.charge(1, seconds(1)).err(), Some(Wait { until: seconds(5), reason: WaitReason::Asked }));
        assert_eq!(rates.charge(1, seconds(5)).err(), None);
    }
}
