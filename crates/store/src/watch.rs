//! Wakes the readers that wait for a run's next event.
//!
//! The registry has the newest `seq` of every watched run that it was notified of. How notifications of other processes
//! arrive is up to the adapter. A wake-up is a hint: the log itself is the truth.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;
use windlass_core::ids::RunId;

/// Waits for a run's next event. Watch first, then read the log: nothing falls in between.
#[derive(Debug)]
pub struct EventWatch {
    run: RunId,
    newest: watch::Receiver<u64>,
    registry: Arc<Watchers>,
}

impl EventWatch {
    /// Returns when the run may have new events since the watch began or this last returned. Also returns once the store
    /// is closed, so that the next read can say so.
    pub async fn changed(&mut self) {
        // An error means that the registry is closed, which is one of the two reasons to return.
        let _ = self.newest.changed().await;
    }
}

impl Drop for EventWatch {
    fn drop(&mut self) {
        self.registry.leave(&self.run);
    }
}

/// Which runs are watched, by how many, and how far their watchers know the log.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    runs: HashMap<RunId, Watched>,
    /// Those of them that no poller has looked at yet.
    newcomers: HashSet<RunId>,
    closed: bool,
}

#[derive(Debug)]
struct Watched {
    newest: watch::Sender<u64>,
    watchers: usize,
}

/// Which runs a poller is to look at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Runs that were not watched at the last look.
    pub(crate) newcomers: Vec<RunId>,
    /// Whether some other run has been watched ever since.
    pub(crate) others: bool,
}

impl Watchers {
    pub(crate) fn watch(self: &Arc<Self>, run: &RunId) -> EventWatch {
        let mut state = self.state();
        let newest = if state.closed {
            // Its sender is gone at once, which makes `changed` return.
            watch::channel(0).1
        } else {
            let State { runs, newcomers, .. } = &mut *state;
            let watched = runs.entry(run.clone()).or_insert_with(|| {
                newcomers.insert(run.clone());
                Watched { newest: watch::Sender::new(0), watchers: 0 }
            });
            watched.watchers += 1;
            watched.newest.subscribe()
        };
        drop(state);
        self.changed.notify_all();
        EventWatch { run: run.clone(), newest, registry: Arc::clone(self) }
    }

    /// Wakes a run's watchers because its log reaches `seq`, unless they know that already.
    pub(crate) fn reached(&self, run: &RunId, seq: u64) {
        if let Some(watched) = self.state().runs.get(run) {
            watched.newest.send_if_modified(|newest| {
                let newer = seq > *newest;
                *newest = seq.max(*newest);
                newer
            });
        }
    }

    /// Whether a reader of this process waits for the run's events.
    pub(crate) fn is_watched(&self, run: &RunId) -> bool {
        self.state().runs.contains_key(run)
    }

    /// Ends all watches.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.runs.clear();
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn watched(&self) -> Vec<RunId> {
        self.state().runs.keys().cloned().collect()
    }

    /// Blocks until it is time to poll: at once for a newcomer, otherwise after `interval`, and for as long as no run is
    /// watched. Returns `None` once the registry is closed.
    pub(crate) fn next_look(&self, interval: Duration) -> Option<Look> {
        let state = self.state();
        let state = self
            .changed
            .wait_while(state, |state| state.runs.is_empty() && !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, interval, |state| state.newcomers.is_empty() && !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        let others = state.runs.len() > state.newcomers.len();
        (!state.closed).then(|| Look { newcomers: state.newcomers.drain().collect(), others })
    }

    fn leave(&self, run: &RunId) {
        let mut state = self.state();
        if let Some(watched) = state.runs.get_mut(run) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                state.runs.remove(run);
                state.newcomers.remove(run);
            }
        }
    }

    /// A panic elsewhere leaves the map whole: every change to it is a single step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Duration = Duration::from_secs(3600);

    fn registry() -> Arc<Watchers> {
        Arc::new(Watchers::default())
    }

    fn woken(watch: &mut EventWatch) -> bool {
        let woken = watch.newest.has_changed().unwrap();
        watch.newest.mark_unchanged();
        woken
    }

    #[test]
    fn a_watcher_is_woken_only_by_new_events_of_its_run() {
        let (watchers, run) = (registry(), RunId::new("a"));
        let mut watch = watchers.watch(&run);
        watchers.reached(&RunId::new("b"), 1);
        assert!(!woken(&mut watch));
        watchers.reached(&run, 2);
        assert!(woken(&mut watch));
        watchers.reached(&run, 2);
        watchers.reached(&run, 1);
        assert!(!woken(&mut watch));
    }

    #[test]
    fn the_entry_of_a_run_is_removed_with_its_last_watcher() {
        let (watchers, run) = (registry(), RunId::new("a"));
        let (first, second) = (watchers.watch(&run), watchers.watch(&run));
        drop(first);
        assert_eq!(watchers.watched(), [run]);
        drop(second);
        assert_eq!(watchers.watched(), []);
    }

    #[tokio::test]
    async fn closing_ends_every_watch_old_and_new() {
        let (watchers, run) = (registry(), RunId::new("a"));
        let mut before = watchers.watch(&run);
        watchers.close();
        before.changed().await;
        watchers.watch(&run).changed().await;
        assert_eq!(watchers.next_look(NEVER), None);
    }

    #[test]
    fn a_poller_sleeps_until_a_run_is_watched_and_polls_newcomers_at_once() {
        let (watchers, [a, b]) = (registry(), ["a", "b"].map(RunId::new));
        let poller = std::thread::spawn({
            let (watchers, b) = (Arc::clone(&watchers), b.clone());
            move || {
                let first = watchers.next_look(NEVER);
                let _watch = watchers.watch(&b);
                let second = watchers.next_look(NEVER);
                [first, second]
            }
        });
        let _watch = watchers.watch(&a);
        let looks = [Look { newcomers: vec![a], others: false }, Look { newcomers: vec![b], others: true }];
        assert_eq!(poller.join().unwrap(), looks.map(Some));
    }

    #[test]
    fn a_run_that_is_watched_already_or_no_longer_is_no_newcomer() {
        let (watchers, run) = (registry(), RunId::new("a"));
        let _first = watchers.watch(&run);
        watchers.watch(&RunId::new("b"));
        assert_eq!(watchers.next_look(NEVER), Some(Look { newcomers: vec![run.clone()], others: false }));
        let _second = watchers.watch(&run);
        assert_eq!(watchers.next_look(Duration::ZERO), Some(Look { newcomers: vec![], others: true }));
    }
}
