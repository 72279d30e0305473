//! The wake-up times of all runs or of all schedules, at most one entry for each and time. A wake-up that comes too
//! early, or twice, is harmless: the run or schedule itself decides what is due.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::time::Nanos;

pub(crate) struct Wakeups<K> {
    wakeups: Mutex<BTreeSet<Wakeup<K>>>,
    earlier: Notify,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Wakeup<K> {
    at: Nanos,
    key: K,
}

impl<K> Default for Wakeups<K> {
    fn default() -> Self {
        Self { wakeups: Mutex::default(), earlier: Notify::new() }
    }
}

impl<K: Ord> Wakeups<K> {
    pub(crate) fn set(&self, at: Nanos, key: K) {
        let mut wakeups = self.lock();
        let first = wakeups.first().is_none_or(|earliest| at < earliest.at);
        wakeups.insert(Wakeup { at, key });
        drop(wakeups);
        if first {
            self.earlier.notify_one();
        }
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.lock().first().map(|wakeup| wakeup.at)
    }

    /// Removes and returns what is due.
    pub(crate) fn due(&self, now: Nanos) -> Vec<K> {
        let mut wakeups = self.lock();
        let mut due = Vec::new();
        while wakeups.first().is_some_and(|wakeup| wakeup.at <= now) {
            due.extend(wakeups.pop_first().map(|wakeup| wakeup.key));
        }
        due.dedup();
        due
    }

    /// Completes when an earlier wake-up was set.
    pub(crate) async fn changed(&self) {
        self.earlier.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Wakeup<K>>> {
        self.wakeups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::RunKey;

    #[test]
    fn setting_the_same_wakeup_again_adds_no_entry() {
        let wakeups = Wakeups::default();
        let run = |name: &str| RunKey::new("n", name, "r");
        for _ in 0..100 {
            wakeups.set(7, run("a"));
            wakeups.set(5, run("b"));
        }
        assert_eq!(wakeups.lock().len(), 2);
        assert_eq!(wakeups.next(), Some(5));
        assert_eq!(wakeups.due(6), [run("b")]);
        assert_eq!(wakeups.due(7), [run("a")]);
        assert_eq!(wakeups.next(), None);
    }
}
