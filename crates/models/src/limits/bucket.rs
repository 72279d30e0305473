//! What one minute allows, as a pure state machine.

use std::{collections::VecDeque, time::Duration};

pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// A bucket with what one minute allows. What is taken flows back exactly a minute later, not bit by bit: a bucket that is
/// refilled continuously would allow twice its rate in the minute after a pause.
#[derive(Debug)]
pub(super) struct Bucket {
    per_minute: u64,
    /// In the order in which it was taken.
    taken: VecDeque<Taken>,
    next: u64,
}

#[derive(Debug)]
struct Taken {
    number: u64,
    at: Duration,
    amount: u64,
}

/// For correcting what was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Receipt(u64);

impl Bucket {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { per_minute: u64::from(per_minute.max(1)), taken: VecDeque::new(), next: 0 }
    }

    /// When this amount can be taken, if not now. An amount above the rate takes a whole minute's.
    pub(super) fn wait(&mut self, amount: u64, now: Duration) -> Option<Duration> {
        while self.taken.front().is_some_and(|taken| taken.at + MINUTE <= now) {
            self.taken.pop_front();
        }
        let wanted = amount.min(self.per_minute);
        let mut used: u64 = self.taken.iter().map(|taken| taken.amount).sum();
        let mut free_at = None;
        for taken in &self.taken {
            if used + wanted <= self.per_minute {
                break;
            }
            used -= taken.amount;
            free_at = Some(taken.at + MINUTE);
        }
        free_at
    }

    /// Takes an amount for which [`Self::wait`] had nothing to wait for.
    pub(super) fn take(&mut self, amount: u64, now: Duration) -> Receipt {
        let number = self.next;
        self.next += 1;
        self.taken.push_back(Taken { number, at: now, amount: amount.min(self.per_minute) });
        Receipt(number)
    }

    /// Replaces the amount by what it turned out to be. What was taken a minute ago is forgotten.
    pub(super) fn correct(&mut self, receipt: Receipt, amount: u64) {
        if let Some(taken) = self.taken.iter_mut().find(|taken| taken.number == receipt.0) {
            taken.amount = amount;
        }
    }

    pub(super) fn is_empty(&mut self, now: Duration) -> bool {
        self.wait(0, now);
        self.taken.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn try_take(bucket: &mut Bucket, amount: u64, now: Duration) -> Result<Receipt, Duration> {
        bucket.wait(amount, now).map_or_else(|| Ok(bucket.take(amount, now)), Err)
    }

    #[test]
    fn what_was_taken_flows_back_after_a_minute() {
        // The second, the amount, and the second at which it is free if it is not.
        let table = [
            (0, 60, None),
            (10, 40, None),
            (10, 0, None),
            (11, 1, Some(60)),
            (59, 61, Some(70)),
            (60, 60, None),
            (69, 41, Some(120)),
            (70, 40, None),
            (500, 1_000, None),
            (501, 1, Some(560)),
        ];
        let mut bucket = Bucket::new(100);
        for (now, amount, free_at) in table {
            let taken = try_take(&mut bucket, amount, seconds(now));
            assert_eq!(taken.err(), free_at.map(seconds), "{amount} at {now} s");
        }
    }

    #[test]
    fn a_correction_counts_from_when_it_was_taken() {
        let mut bucket = Bucket::new(100);
        let first = try_take(&mut bucket, 90, seconds(0)).unwrap();
        bucket.correct(first, 10);
        let second = try_take(&mut bucket, 90, seconds(1)).unwrap();
        bucket.correct(second, 500);
        // More was used than a minute allows: everything has to flow back.
        assert_eq!(try_take(&mut bucket, 1, seconds(2)), Err(seconds(61)));
        assert!(try_take(&mut bucket, 1, seconds(61)).is_ok());
        bucket.correct(first, 100);
        assert!(try_take(&mut bucket, 99, seconds(62)).is_ok(), "what has flowed back is not corrected");
        assert!(!bucket.is_empty(seconds(121)));
        assert!(bucket.is_empty(seconds(122)));
    }

    #[test]
    fn a_rate_of_zero_is_a_rate_of_one() {
        let mut bucket = Bucket::new(0);
        assert!(try_take(&mut bucket, 1, seconds(0)).is_ok());
        assert_eq!(try_take(&mut bucket, 1, seconds(0)), Err(seconds(60)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// Callers come at random times and wait as long as they are told.
        #[test]
        fn no_minute_has_more_than_the_rate(
            rate in 1..200_u32,
            calls in proptest::collection::vec((0..90_000_u64, 0..250_u64), 1..40),
        ) {
            let mut bucket = Bucket::new(rate);
            let mut now = Duration::ZERO;
            let mut taken: Vec<(Duration, u64)> = Vec::new();
            for (pause, amount) in calls {
                now += Duration::from_millis(pause);
                if let Err(free_at) = try_take(&mut bucket, amount, now) {
                    prop_assert!(free_at > now && free_at <= now + MINUTE);
                    let early = try_take(&mut bucket, amount, free_at - Duration::from_nanos(1));
                    prop_assert!(early.is_err(), "it is free at {free_at:?} and no earlier");
                    now = free_at;
                    prop_assert!(try_take(&mut bucket, amount, now).is_ok(), "it is free when the bucket says so");
                }
                taken.push((now, amount.min(u64::from(rate))));
                // Every window that ends with this call; windows between calls have no more.
                let window: u64 = taken.iter().filter(|(at, _)| *at + MINUTE > now).map(|(_, amount)| amount).sum();
                prop_assert!(window <= u64::from(rate), "{window} in a minute, {rate} allowed");
            }
        }
    }
}
