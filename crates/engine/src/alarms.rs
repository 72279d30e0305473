//! One alarm for each run that waits for a moment. An alarm that rings too early, or twice, does no harm: the run says
//! what is due.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Mutex, PoisonError},
};

use tokio::sync::Notify;

use crate::{registry::RunKey, time::Nanos};

#[derive(Default)]
pub(crate) struct Alarms {
    heap: Mutex<BinaryHeap<Reverse<Alarm>>>,
    earlier: Notify,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Alarm {
    at: Nanos,
    run: RunKey,
}

impl Alarms {
    pub(crate) fn set(&self, at: Nanos, run: RunKey) {
        let mut heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
        let first = heap.peek().is_none_or(|Reverse(earliest)| at < earliest.at);
        heap.push(Reverse(Alarm { at, run }));
        drop(heap);
        if first {
            self.earlier.notify_one();
        }
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.heap.lock().unwrap_or_else(PoisonError::into_inner).peek().map(|Reverse(alarm)| alarm.at)
    }

    /// Takes the alarms that are due.
    pub(crate) fn due(&self, now: Nanos) -> Vec<RunKey> {
        let mut heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        while heap.peek().is_some_and(|Reverse(alarm)| alarm.at <= now) {
            if let Some(Reverse(alarm)) = heap.pop()
                && due.last() != Some(&alarm.run)
            {
                due.push(alarm.run);
            }
        }
        due
    }

    /// Completes when the next alarm may be another one than before.
    pub(crate) async fn changed(&self) {
        self.earlier.notified().await;
    }
}
