//! A clock for tests: while nothing is under way, the time until the next alarm does not have to be waited for.
//!
//! The rule is that of Temporal's test server. The engine tells the clock what each run waits for and whether somebody
//! is at work for it; clients lock and unlock it, through the protocol's test service or by the methods here.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::{
    Clock, SystemClock,
    timeline::{NotLocked, Timeline},
};
use crate::{registry::RunKey, run::Run, time::Nanos};

#[derive(Debug)]
pub struct SkippingClock {
    began: Instant,
    timeline: Mutex<Timeline>,
    jumped: Notify,
}

impl SkippingClock {
    /// Begins at the system's time, locked once: nothing is skipped before the first [`unlock`](Self::unlock).
    pub fn new() -> Self {
        Self::starting_at(SystemClock.now())
    }

    /// Begins at another moment, in Unix nanoseconds: for example where an earlier clock of the same database ended.
    pub fn starting_at(at: i64) -> Self {
        Self { began: Instant::now(), timeline: Mutex::new(Timeline::new(at)), jumped: Notify::new() }
    }

    /// Lets time run at real speed until it is unlocked as often as it was locked.
    pub fn lock(&self) {
        self.change(|timeline, _| timeline.lock());
    }

    pub fn unlock(&self) -> Result<(), NotLocked> {
        self.change(|timeline, _| timeline.unlock())
    }

    /// Completes when this much time has passed here. Whether it is skipped is up to the locks.
    pub async fn sleep(&self, span: Duration) {
        self.sleep_until(after(self.now(), span)).await;
    }

    /// Completes at this moment, in Unix nanoseconds.
    pub async fn sleep_until(&self, at: i64) {
        let sleeper = self.change(|timeline, _| timeline.sleep(at));
        let _asleep = SleepGuard { clock: self, sleeper, until: at, locks_again: false };
        self.reach(at).await;
    }

    /// Takes one lock away for as long as it takes this much time to pass.
    pub async fn unlock_with_sleep(&self, span: Duration) -> Result<(), NotLocked> {
        let (until, sleeper) = self.change(|timeline, now| {
            timeline.unlock()?;
            let until = after(now, span);
            Ok((until, timeline.sleep(until)))
        })?;
        let _asleep = SleepGuard { clock: self, sleeper, until, locks_again: true };
        self.reach(until).await;
        Ok(())
    }

    /// Time does not jump while an operation is under way.
    pub(crate) fn hold(&self) -> Hold<'_> {
        self.change(|timeline, _| timeline.hold());
        Hold { clock: self }
    }

    /// Takes note of what a run waits for after an operation.
    pub(crate) fn set_run(&self, key: &RunKey, run: &Run) {
        self.change(|timeline, _| timeline.set_run(key, run.next_wakeup(), run.is_at_work()));
    }

    /// The runs are taken up from disk again.
    pub(crate) fn forget_runs(&self) {
        self.change(|timeline, _| timeline.forget_runs());
    }

    /// Every change may be the one that makes time jump. `act` is told the time before.
    fn change<T>(&self, act: impl FnOnce(&mut Timeline, Nanos) -> T) -> T {
        let mut timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        let now = timeline.now(self.real());
        let done = act(&mut timeline, now);
        if timeline.jump(self.real()) {
            self.jumped.notify_waiters();
        }
        done
    }

    fn real(&self) -> Nanos {
        Nanos::try_from(self.began.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }
}

impl Default for SkippingClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SkippingClock {
    fn now(&self) -> Nanos {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner).now(self.real())
    }

    fn reach(&self, at: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let mut jumped = pin!(self.jumped.notified());
            loop {
                // A jump between looking at the time and waiting must not be missed.
                jumped.as_mut().enable();
                let left = u64::try_from(at.saturating_sub(self.now())).unwrap_or_default();
                if left == 0 {
                    return;
                }
                tokio::select! {
                    () = &mut jumped => jumped.set(self.jumped.notified()),
                    () = tokio::time::sleep(Duration::from_nanos(left)) => {}
                }
            }
        })
    }

    fn skipping(&self) -> Option<&SkippingClock> {
        Some(self)
    }
}

pub(crate) struct Hold<'a> {
    clock: &'a SkippingClock,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.clock.change(|timeline, _| timeline.release());
    }
}

/// Somebody who sleeps. Time goes on, and is locked again, when they wake or give up.
struct SleepGuard<'a> {
    clock: &'a SkippingClock,
    sleeper: u64,
    until: Nanos,
    locks_again: bool,
}

impl Drop for SleepGuard<'_> {
    fn drop(&mut self) {
        self.clock.change(|timeline, _| {
            timeline.wake(self.until, self.sleeper);
            if self.locks_again {
                timeline.lock();
            }
        });
    }
}

fn after(now: Nanos, span: Duration) -> Nanos {
    now.saturating_add(Nanos::try_from(span.as_nanos()).unwrap_or(Nanos::MAX))
}

impl Run {
    /// Whether a worker has, or may have any moment, something of this run to do, or a letter of it is under way.
    fn is_at_work(&self) -> bool {
        let state = &self.state;
        let not_begun = state.task.is_none() && state.previous_started_id == 0 && state.first_task_due == 0;
        let decides = state.task.is_some() || not_begun;
        let acts = state.activities.values().any(|activity| !activity.backing_off);
        !state.outbox.is_empty() || (state.is_running() && (decides || acts))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, poll};

    use super::*;

    const THREE_WEEKS: Duration = Duration::from_secs(21 * 24 * 3600);

    #[tokio::test]
    async fn an_unlocked_clock_skips_sleeps() {
        let clock = SkippingClock::starting_at(0);
        clock.unlock().unwrap();
        assert_eq!(clock.unlock(), Err(NotLocked));
        clock.sleep(THREE_WEEKS).await;
        clock.sleep_until(2 * after(0, THREE_WEEKS)).await;
        // Whoever waits beside them wakes, too.
        clock.reach(after(0, THREE_WEEKS)).await;
        assert!(clock.now() >= 2 * after(0, THREE_WEEKS));
        assert!(clock.now() < 2 * after(0, THREE_WEEKS) + after(0, Duration::from_secs(60)));
    }

    #[tokio::test]
    async fn a_locked_clock_does_not_skip_sleeps() {
        let clock = SkippingClock::starting_at(0);
        let mut sleeping = pin!(clock.sleep(THREE_WEEKS));
        assert!(poll!(&mut sleeping).is_pending());
        clock.lock();
        clock.unlock().unwrap();
        assert!(poll!(&mut sleeping).is_pending());
        clock.unlock().unwrap();
        sleeping.await;
    }

    #[tokio::test]
    async fn unlock_with_sleep_locks_again_even_when_it_is_cancelled() {
        let clock = SkippingClock::starting_at(0);
        clock.unlock_with_sleep(THREE_WEEKS).await.unwrap();
        assert!(clock.sleep(THREE_WEEKS).now_or_never().is_none());

        clock.lock();
        assert!(clock.unlock_with_sleep(THREE_WEEKS).now_or_never().is_none());
        assert!(clock.now() < after(0, 2 * THREE_WEEKS));
        clock.unlock().unwrap();
        clock.unlock().unwrap();
        assert_eq!(clock.unlock_with_sleep(THREE_WEEKS).await, Err(NotLocked));
    }
}
