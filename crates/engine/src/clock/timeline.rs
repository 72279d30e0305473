//! The rule of time skipping as pure state; the caller passes the real time in.
//!
//! Time runs at real speed. While it is not locked and no run has pending work, it jumps to the next wake-up time and
//! stays there until that wake-up was handled. So time never jumps past a due wake-up.

use std::collections::{BTreeSet, HashMap};

use crate::{registry::RunKey, time::Nanos};

/// `unlock` was called more often than `lock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("time skipping is not locked, so it cannot be unlocked; lock it once for each unlock")]
pub struct NotLocked;

#[derive(Debug)]
pub(super) struct Timeline {
    /// The offset that is added to the real time.
    ahead: Nanos,
    locks: u32,
    /// Operations in progress.
    holds: u32,
    runs: HashMap<RunKey, RunTiming>,
    runs_at_work: usize,
    waiting: BTreeSet<(Nanos, Waiter)>,
    next_sleeper: u64,
}

/// What the clock knows of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RunTiming {
    wakeup: Option<Nanos>,
    at_work: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Waiter {
    Run(RunKey),
    Sleeper(u64),
}

impl Timeline {
    /// Locked once, as clients of the test service expect.
    pub(super) fn new(ahead: Nanos) -> Self {
        Self {
            ahead,
            locks: 1,
            holds: 0,
            runs: HashMap::new(),
            runs_at_work: 0,
            waiting: BTreeSet::new(),
            next_sleeper: 0,
        }
    }

    pub(super) fn now(&self, real: Nanos) -> Nanos {
        real.saturating_add(self.ahead)
    }

    /// Jumps if possible and returns whether it did. Called after every change.
    pub(super) fn jump(&mut self, real: Nanos) -> bool {
        let now = self.now(real);
        let running = self.locks > 0 || self.holds > 0 || self.runs_at_work > 0;
        match self.waiting.first() {
            // The maximum time means "never".
            Some((at, _)) if !running && *at > now && *at < Nanos::MAX => {
                self.ahead += at - now;
                true
            }
            _ => false,
        }
    }

    pub(super) fn lock(&mut self) {
        self.locks += 1;
    }

    pub(super) fn unlock(&mut self) -> Result<(), NotLocked> {
        self.locks = self.locks.checked_sub(1).ok_or(NotLocked)?;
        Ok(())
    }

    pub(super) fn hold(&mut self) {
        self.holds += 1;
    }

    pub(super) fn release(&mut self) {
        self.holds -= 1;
    }

    /// Sets the run's next wake-up time and whether it has pending work.
    pub(super) fn set_run(&mut self, run: &RunKey, wakeup: Option<Nanos>, at_work: bool) {
        self.forget(run);
        if wakeup.is_none() && !at_work {
            return;
        }
        self.runs.insert(run.clone(), RunTiming { wakeup, at_work });
        self.runs_at_work += usize::from(at_work);
        self.waiting.extend(wakeup.map(|at| (at, Waiter::Run(run.clone()))));
    }

    /// Marks pending work, and keeps the wake-up time.
    pub(super) fn set_at_work(&mut self, run: &RunKey) {
        let wakeup = self.runs.get(run).and_then(|timing| timing.wakeup);
        self.set_run(run, wakeup, true);
    }

    fn forget(&mut self, run: &RunKey) {
        let Some(before) = self.runs.remove(run) else { return };
        self.runs_at_work -= usize::from(before.at_work);
        if let Some(at) = before.wakeup {
            self.waiting.remove(&(at, Waiter::Run(run.clone())));
        }
    }

    pub(super) fn forget_runs(&mut self) {
        self.runs.clear();
        self.runs_at_work = 0;
        self.waiting.retain(|(_, waiter)| matches!(waiter, Waiter::Sleeper(_)));
    }

    /// Registers a sleep until this time. Time does not jump past it before [`wake`](Self::wake).
    pub(super) fn sleep(&mut self, until: Nanos) -> u64 {
        self.next_sleeper += 1;
        self.waiting.insert((until, Waiter::Sleeper(self.next_sleeper)));
        self.next_sleeper
    }

    pub(super) fn wake(&mut self, until: Nanos, sleeper: u64) {
        self.waiting.remove(&(until, Waiter::Sleeper(sleeper)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    const START: Nanos = 1_000_000;

    #[derive(Debug, Clone)]
    enum Step {
        Pass(Nanos),
        Lock,
        Unlock,
        Hold,
        Release,
        /// Wake-up times are relative to now and may be in the past.
        Stand {
            run: u8,
            wakeup: Option<Nanos>,
            at_work: bool,
        },
        Sleep(Nanos),
        /// Wakes the first sleeper that is due.
        Wake,
        ForgetRuns,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            1 => (0..100i64).prop_map(Step::Pass),
            1 => Just(Step::Lock),
            3 => Just(Step::Unlock),
            1 => Just(Step::Hold),
            3 => Just(Step::Release),
            6 => (0..4u8, proptest::option::of(-5..1000i64), proptest::bool::weighted(0.3))
                .prop_map(|(run, wakeup, at_work)| Step::Stand { run, wakeup, at_work }),
            2 => (0..1000i64).prop_map(Step::Sleep),
            2 => Just(Step::Wake),
            1 => Just(Step::ForgetRuns),
        ]
    }

    /// The reference model: who waits and who has pending work.
    #[derive(Debug, Default)]
    struct Account {
        locks: u32,
        holds: u32,
        runs: BTreeMap<u8, (Option<Nanos>, bool)>,
        sleepers: Vec<(Nanos, u64)>,
    }

    impl Account {
        fn is_still(&self) -> bool {
            self.locks == 0 && self.holds == 0 && self.runs.values().all(|(_, at_work)| !at_work)
        }

        fn next(&self) -> Option<Nanos> {
            let wakeups = self.runs.values().filter_map(|(wakeup, _)| *wakeup);
            wakeups.chain(self.sleepers.iter().map(|(until, _)| *until)).min()
        }
    }

    fn key(run: u8) -> RunKey {
        RunKey::new("default", &format!("workflow-{run}"), &format!("run-{run}"))
    }

    proptest! {
        #[test]
        fn time_jumps_to_the_next_wakeup_and_only_while_nothing_works(steps in vec(step(), 1..80)) {
            let mut timeline = Timeline::new(START);
            let mut account = Account { locks: 1, ..Account::default() };
            let mut real = 0;
            for step in steps {
                let before = timeline.now(real);
                let mut passed = 0;
                match step {
                    Step::Pass(span) => {
                        passed = span;
                        real += span;
                    }
                    Step::Lock => {
                        timeline.lock();
                        account.locks += 1;
                    }
                    Step::Unlock => {
                        prop_assert_eq!(timeline.unlock().is_ok(), account.locks > 0);
                        account.locks = account.locks.saturating_sub(1);
                    }
                    Step::Hold => {
                        timeline.hold();
                        account.holds += 1;
                    }
                    Step::Release if account.holds > 0 => {
                        timeline.release();
                        account.holds -= 1;
                    }
                    Step::Stand { run, wakeup, at_work } => {
                        let wakeup = wakeup.map(|after| before + after);
                        timeline.set_run(&key(run), wakeup, at_work);
                        account.runs.insert(run, (wakeup, at_work));
                    }
                    Step::Sleep(span) => {
                        let sleeper = timeline.sleep(before + span);
                        account.sleepers.push((before + span, sleeper));
                    }
                    Step::Wake => {
                        if let Some(index) = account.sleepers.iter().position(|(until, _)| *until <= before) {
                            let (until, sleeper) = account.sleepers.remove(index);
                            timeline.wake(until, sleeper);
                        }
                    }
                    Step::ForgetRuns => {
                        timeline.forget_runs();
                        account.runs.clear();
                    }
                    Step::Release => {}
                }
                prop_assert_eq!(timeline.now(real), before + passed, "nothing but a jump moves time");
                let jumped = timeline.jump(real);
                let expected = account.next().filter(|next| account.is_still() && *next > before + passed);
                prop_assert_eq!(jumped, expected.is_some());
                prop_assert_eq!(timeline.now(real), expected.unwrap_or(before + passed));
                prop_assert!(!timeline.jump(real), "there is one jump until the waiter has woken");
            }
        }
    }

    #[test]
    fn time_never_jumps_to_the_maximum_time() {
        let mut timeline = Timeline::new(START);
        timeline.unlock().unwrap();
        timeline.set_run(&key(1), Some(Nanos::MAX), false);
        assert!(!timeline.jump(0));
        assert_eq!(timeline.now(0), START);
    }
}
