//! One alarm for each run that waits for a moment. An alarm that rings too early, or twice, does no harm: the run says
//! what is due. A run that is let go and loaded again sets its alarm again, which changes nothing.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{registry::RunKey, time::Nanos};

#[derive(Default)]
pub(crate) struct Alarms {
    alarms: Mutex<BTreeSet<Alarm>>,
    earlier: Notify,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Alarm {
    at: Nanos,
    run: RunKey,
}

impl Alarms {
    pub(crate) fn set(&self, at: Nanos, run: RunKey) {
        let mut alarms = self.lock();
        let first = alarms.first().is_none_or(|earliest| at < earliest.at);
        alarms.insert(Alarm { at, run });
        drop(alarms);
        if first {
            self.earlier.notify_one();
        }
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.lock().first().map(|alarm| alarm.at)
    }

    /// Takes the alarms that are due.
    pub(crate) fn due(&self, now: Nanos) -> Vec<RunKey> {
        let mut alarms = self.lock();
        let mut due = Vec::new();
        while alarms.first().is_some_and(|alarm| alarm.at <= now) {
            due.extend(alarms.pop_first().map(|alarm| alarm.run));
        }
        due.dedup();
        due
    }

    /// Completes when the next alarm may be another one than before.
    pub(crate) async fn changed(&self) {
        self.earlier.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Alarm>> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_of_runs_that_come_and_go_do_not_pile_up() {
        let alarms = Alarms::default();
        let run = |name: &str| RunKey::new("n", name, "r");
        for _ in 0..100 {
            alarms.set(7, run("a"));
            alarms.set(5, run("b"));
        }
        assert_eq!(alarms.lock().len(), 2);
        assert_eq!(alarms.next(), Some(5));
        assert_eq!(alarms.due(6), [run("b")]);
        assert_eq!(alarms.due(7), [run("a")]);
        assert_eq!(alarms.next(), None);
    }
}
