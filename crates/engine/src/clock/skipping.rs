//! A clock for tests that skips time: while no work is pending, it jumps to the next wake-up time.
//!
//! The rule is that of Temporal's test server. The engine reports to the clock what each run waits for and whether the
//! run has pending work. Clients lock and unlock time skipping through the test service of the protocol or through the
//! methods here.

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
use crate::{
    registry::RunKey,
    run::{Run, nexus::NexusOperation},
    schedules::ScheduleKey,
    time::Nanos,
};

#[derive(Debug)]
pub struct SkippingClock {
    began: Instant,
    timeline: Mutex<Timeline>,
    jumped: Notify,
}

impl SkippingClock {
    /// Starts at the system time, locked once: no time is skipped before the first [`unlock`](Self::unlock).
    pub fn new() -> Self {
        Self::starting_at(SystemClock.now())
    }

    /// Starts at another time, in Unix nanoseconds, for example where an earlier clock of the same database ended.
    pub fn starting_at(at: i64) -> Self {
        Self { began: Instant::now(), timeline: Mutex::new(Timeline::new(at)), jumped: Notify::new() }
    }

    /// Makes time run at real speed until `unlock` has been called as often as `lock`.
    pub fn lock(&self) {
        self.change(|timeline, _| timeline.lock());
    }

    pub fn unlock(&self) -> Result<(), NotLocked> {
        self.change(|timeline, _| timeline.unlock())
    }

    /// Completes after this span of the clock's time. The span is skipped if time skipping is unlocked.
    pub async fn sleep(&self, span: Duration) {
        self.sleep_until(after(self.now(), span)).await;
    }

    /// Completes at this time, in Unix nanoseconds.
    pub async fn sleep_until(&self, at: i64) {
        let sleeper = self.change(|timeline, _| timeline.sleep(at));
        let _asleep = SleepGuard { clock: self, sleeper, until: at, locks_again: false };
        self.reach(at).await;
    }

    /// Releases one lock until this span has passed, then takes it again.
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

    /// Prevents time from jumping during an operation.
    pub(crate) fn hold(&self) -> Hold<'_> {
        self.change(|timeline, _| timeline.hold());
        Hold { clock: self }
    }

    /// Records what a run waits for after an operation.
    pub(crate) fn set_run(&self, key: &RunKey, run: &Run) {
        self.change(|timeline, _| timeline.set_run(key, run.next_wakeup(), run.is_at_work()));
    }

    /// Records the next wake-up time of a schedule after a turn.
    pub(crate) fn set_schedule(&self, key: &ScheduleKey, wakeup: Option<Nanos>) {
        self.change(|timeline, _| timeline.set_run(&key.among_runs(), wakeup, false));
    }

    /// Prevents time from jumping until the next turn of a schedule.
    pub(crate) fn set_schedule_at_work(&self, key: &ScheduleKey) {
        self.change(|timeline, _| timeline.set_at_work(&key.among_runs()));
    }

    /// Removes all runs and schedules. They are read from disk again.
    pub(crate) fn forget_runs(&self) {
        self.change(|timeline, _| timeline.forget_runs());
    }

    /// Applies a change and then jumps if the change allows it. `act` gets the time before the change.
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
                // Registers before the clock is read, so that no jump in between is missed.
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

/// A pending sleep. When it is dropped, the sleep no longer stops the clock, and the lock is taken again if needed.
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
    /// Whether the run has a workflow task, an activity or an outbox message that can make progress now.
    fn is_at_work(&self) -> bool {
        let state = &self.state;
        let not_begun = state.task.is_none() && state.previous_started_id == 0 && state.first_task_due == 0;
        let decides = state.task.is_some() || not_begun;
        let acts = state.activities.values().any(|activity| !activity.backing_off);
        let asks = state.nexus_operations.values().any(NexusOperation::awaits_handler);
        !state.outbox.is_empty() || (state.is_running() && (decides || acts || asks))
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
        // Another waiter of the same clock completes, too.
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
