//! When steps begin, noted by the bodies of the steps themselves.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Plan,
    Call,
}

/// Shared by the program's orders and the code of its workflow.
#[derive(Debug, Clone)]
pub struct Probe {
    beats: Arc<Mutex<Vec<(Step, Instant)>>>,
    calls: Arc<watch::Sender<u64>>,
    /// Runs that wait for their answer.
    waiting: Arc<Mutex<BTreeMap<String, watch::Sender<bool>>>>,
}

impl Default for Probe {
    fn default() -> Self {
        Self { beats: Arc::default(), calls: Arc::new(watch::channel(0).0), waiting: Arc::default() }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Probe {
    /// A step begins now.
    pub fn begins(&self, step: Step) {
        held(&self.beats).push((step, Instant::now()));
        if step == Step::Call {
            self.calls.send_modify(|calls| *calls += 1);
        }
    }

    /// This run does nothing from now on but wait for its answer.
    pub fn waits(&self, run: &str) {
        self.of(run).send_replace(true);
    }

    fn of(&self, run: &str) -> watch::Sender<bool> {
        held(&self.waiting).entry(run.to_owned()).or_insert_with(|| watch::channel(false).0).clone()
    }

    pub(crate) async fn until_waits(&self, run: &str) {
        // The sender is in the map, so this cannot fail.
        let _ = self.of(run).subscribe().wait_for(|waits| *waits).await;
        held(&self.waiting).remove(run);
    }

    /// Returns once this many calls have begun, counted from now.
    pub(crate) async fn until_calls(&self, calls: u64) {
        let mut begun = self.calls.subscribe();
        let target = *begun.borrow_and_update() + calls;
        let _ = begun.wait_for(|begun| *begun >= target).await;
    }

    /// Milliseconds from the start of each step to the start of the next, since the last time. Parallel calls are one
    /// step, as in `windlass bench`.
    pub(crate) fn take_gaps(&self) -> Vec<f64> {
        gaps(std::mem::take(&mut *held(&self.beats))).into_iter().map(|gap| gap.as_secs_f64() * 1000.0).collect()
    }
}

fn gaps(mut beats: Vec<(Step, Instant)>) -> Vec<Duration> {
    beats.dedup_by(|later, earlier| later.0 == Step::Call && earlier.0 == Step::Call);
    beats.windows(2).map(|pair| pair[1].1 - pair[0].1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_lasts_until_the_next_begins_and_parallel_calls_are_one() {
        let begun = Instant::now();
        let at = |step, ms| (step, begun + Duration::from_millis(ms));
        let run = vec![at(Step::Plan, 0), at(Step::Call, 2), at(Step::Call, 3), at(Step::Plan, 7)];
        assert_eq!(gaps(run), [2, 5].map(Duration::from_millis));
        assert_eq!(gaps(Vec::new()), []);
    }

    #[tokio::test]
    async fn a_run_that_waits_is_noticed_before_and_after() {
        let probe = Probe::default();
        probe.waits("early");
        probe.until_waits("early").await;
        let (other, late) = (
            probe.clone(),
            tokio::spawn({
                let probe = probe.clone();
                async move { probe.until_waits("late").await }
            }),
        );
        other.waits("late");
        late.await.unwrap();
    }
}
