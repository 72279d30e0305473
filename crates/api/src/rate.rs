//! Rate limits per key. Pure: the time is an argument.
//!
//! Each key has one bucket per kind of request. A bucket holds a minute's worth and refills steadily, so a key that was
//! idle may send a burst.

use std::{collections::HashMap, time::Duration};

/// Kinds of requests that are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Bucket {
    /// Starting runs and sending messages.
    Starts,
    /// Results, answers, cancel, pause and the like.
    Lifecycle,
    /// Every other change.
    Changes,
    Reads,
    Streams,
}

impl Bucket {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Starts => "run_starts",
            Self::Lifecycle => "lifecycle",
            Self::Changes => "mutations",
            Self::Reads => "reads",
            Self::Streams => "streams",
        }
    }
}

/// Requests per minute and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    pub starts: u32,
    pub lifecycle: u32,
    pub changes: u32,
    pub reads: u32,
    pub streams: u32,
}

impl Default for Rates {
    /// What the protocol's documents say; reads and streams are this server's own.
    fn default() -> Self {
        Self { starts: 120, lifecycle: 600, changes: 120, reads: 1200, streams: 1200 }
    }
}

impl Rates {
    pub(crate) fn of(&self, bucket: Bucket) -> u32 {
        match bucket {
            Bucket::Starts => self.starts,
            Bucket::Lifecycle => self.lifecycle,
            Bucket::Changes => self.changes,
            Bucket::Reads => self.reads,
            Bucket::Streams => self.streams,
        }
    }
}

/// The state of a bucket, for the response headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) allowed: bool,
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    /// Until the bucket is full again.
    pub(crate) reset_secs: u64,
    /// Until one more request is allowed; zero when one is.
    pub(crate) retry_after_secs: u64,
}

/// The buckets of all keys. Only keys that exist have buckets, so the number is bounded.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    buckets: HashMap<(String, Bucket), Level>,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    left: f64,
    at: Duration,
}

impl Limiter {
    /// Takes one request out of the key's bucket. `now` is any clock that only goes forward.
    pub(crate) fn take(&mut self, rates: &Rates, key: &str, bucket: Bucket, now: Duration) -> Allowance {
        let limit = rates.of(bucket);
        let full = f64::from(limit);
        let level = self.buckets.entry((key.to_owned(), bucket)).or_insert(Level { left: full, at: now });
        let per_second = full / 60.0;
        level.left = (level.left + now.saturating_sub(level.at).as_secs_f64() * per_second).min(full);
        level.at = now;
        let allowed = level.left >= 1.0;
        if allowed {
            level.left -= 1.0;
        }
        let until = |wanted: f64| ((wanted - level.left).max(0.0) / per_second).ceil() as u64;
        Allowance {
            allowed,
            limit,
            remaining: level.left as u32,
            reset_secs: until(full),
            retry_after_secs: if allowed { 0 } else { until(1.0).max(1) },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATES: Rates = Rates { starts: 60, lifecycle: 2, changes: 2, reads: 2, streams: 2 };

    #[test]
    fn a_bucket_empties_and_refills() {
        let mut limiter = Limiter::default();
        let mut take = |key: &str, bucket, at| limiter.take(&RATES, key, bucket, Duration::from_secs(at));
        for _ in 0..60 {
            assert!(take("a", Bucket::Starts, 0).allowed);
        }
        let refused = Allowance { allowed: false, limit: 60, remaining: 0, reset_secs: 60, retry_after_secs: 1 };
        assert_eq!(take("a", Bucket::Starts, 0), refused);
        assert!(take("b", Bucket::Starts, 0).allowed, "keys are apart");
        assert!(take("a", Bucket::Reads, 0).allowed, "kinds are apart");
        let later = Allowance { allowed: true, limit: 60, remaining: 9, reset_secs: 51, retry_after_secs: 0 };
        assert_eq!(take("a", Bucket::Starts, 10), later);
    }

    proptest! {
        #[test]
        fn no_caller_gets_more_than_a_bucket_and_its_refill(steps in prop::collection::vec(0_u64..2000, 1..300)) {
            let mut limiter = Limiter::default();
            let (mut now, mut allowed) = (Duration::ZERO, 0_u32);
            for step in steps {
                now += Duration::from_millis(step);
                let answer = limiter.take(&RATES, "k", Bucket::Starts, now);
                allowed += u32::from(answer.allowed);
                prop_assert_eq!(answer.allowed, answer.retry_after_secs == 0);
            }
            prop_assert!(f64::from(allowed) <= 60.0 + now.as_secs_f64() + 1.0);
        }
    }
}
