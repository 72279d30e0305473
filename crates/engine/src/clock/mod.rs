//! The engine's source of time.

mod skipping;
mod timeline;

use std::{
    future::Future,
    pin::Pin,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub use self::{skipping::SkippingClock, timeline::NotLocked};
use crate::time::Nanos;

/// A clock that can also be awaited.
pub trait Clock: Send + Sync + 'static {
    /// Unix nanoseconds.
    fn now(&self) -> i64;

    /// Completes at or after this time.
    fn reach(&self, at: i64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Returns this clock if it can skip time. The engine then reports to it what each run waits for.
    fn skipping(&self) -> Option<&SkippingClock> {
        None
    }
}

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Nanos {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX)
    }

    fn reach(&self, at: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            // The system time may be changed during the wait, so the clock is read again at least once a minute.
            const MAX_SLEEP: u64 = 60 * 1_000_000_000;
            loop {
                match u64::try_from(at - self.now()) {
                    Ok(left) if left > 0 => tokio::time::sleep(Duration::from_nanos(left.min(MAX_SLEEP))).await,
                    _ => return,
                }
            }
        })
    }
}
