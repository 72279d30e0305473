//! Runs in memory, with one lock for each workflow id. No operation holds two of these locks.
//!
//! The runs of a workflow id are loaded on demand and evicted when they have been idle. Memory may be ahead of the disk
//! by the writes in progress; if one of those fails, everything in memory is dropped, as after a restart.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::run::Run;

/// Identifies a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RunKey {
    pub(crate) namespace: Arc<str>,
    pub(crate) workflow_id: Arc<str>,
    pub(crate) run_id: Arc<str>,
}

impl RunKey {
    pub(crate) fn new(namespace: &str, workflow_id: &str, run_id: &str) -> Self {
        Self { namespace: namespace.into(), workflow_id: workflow_id.into(), run_id: run_id.into() }
    }
}

/// The runs of a workflow id.
#[derive(Default)]
pub(crate) struct Workflow {
    /// Number and id of the latest run. `None` before it was read, `Some(None)` if there is none.
    pub(crate) current: Option<Option<(i64, String)>>,
    pub(crate) runs: HashMap<String, Run>,
    used: u64,
    /// Evicted from the registry; an operation that waited for the lock must get the new slot.
    retired: bool,
}

pub(crate) struct Slot {
    /// The epoch in which the slot was created; see [`Registry::epoch`].
    epoch: u64,
    workflow: Mutex<Workflow>,
}

/// Namespace and workflow id.
type SlotKey = (Arc<str>, Arc<str>);
type Slots = HashMap<SlotKey, Arc<Slot>>;

pub(crate) struct Registry {
    /// All slots are of the current epoch.
    slots: Mutex<Slots>,
    /// Changes only while `slots` is locked.
    epoch: AtomicU64,
    tick: AtomicU64,
    limit: usize,
}

impl Registry {
    pub(crate) fn new(limit: usize) -> Self {
        Self { slots: Mutex::default(), epoch: AtomicU64::new(1), tick: AtomicU64::new(1), limit }
    }

    /// Counts how often memory was dropped. A write of an earlier epoch must not be executed, except when an
    /// acknowledged write is replayed.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Drops everything in memory.
    pub(crate) fn forget(&self) {
        let mut slots = self.lock();
        self.epoch.fetch_add(1, Ordering::AcqRel);
        slots.clear();
    }

    /// Runs `act` under the lock of a workflow id.
    pub(crate) fn with<T>(&self, namespace: &str, workflow_id: &str, act: impl FnOnce(&mut Workflow, u64) -> T) -> T {
        let key: SlotKey = (namespace.into(), workflow_id.into());
        loop {
            let slot = {
                let mut slots = self.lock();
                if slots.len() > self.limit {
                    self.evict_idle(&mut slots);
                }
                let new = || Arc::new(Slot { epoch: self.epoch(), workflow: Mutex::default() });
                Arc::clone(slots.entry(key.clone()).or_insert_with(new))
            };
            let mut workflow = slot.workflow.lock().unwrap_or_else(PoisonError::into_inner);
            // A stale slot must not be used: later operations get another one for the same workflow id.
            if workflow.retired || slot.epoch != self.epoch() {
                continue;
            }
            workflow.used = self.tick.fetch_add(1, Ordering::Relaxed);
            return act(&mut workflow, slot.epoch);
        }
    }

    /// Evicts the least recently used quarter, except slots with work in progress.
    fn evict_idle(&self, slots: &mut Slots) {
        let now = self.tick.load(Ordering::Relaxed);
        let mut ages: Vec<u64> =
            slots.values().filter_map(|slot| slot.workflow.try_lock().ok().map(|workflow| workflow.used)).collect();
        ages.sort_unstable();
        let Some(limit) = ages.get(ages.len() / 4).copied() else { return };
        slots.retain(|_, slot| {
            let Ok(mut workflow) = slot.workflow.try_lock() else { return true };
            let idle = workflow.used <= limit && workflow.used < now && workflow.runs.values().all(Run::is_idle);
            workflow.retired = idle;
            !idle
        });
    }

    pub(crate) fn cached(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_waited_during_a_reset_of_memory_uses_the_new_slot() {
        let registry = Registry::new(10);
        let current = |number: i64| Some(Some((number, number.to_string())));
        std::thread::scope(|scope| {
            let waiting = registry.with("n", "w", |_, _| {
                let waiting =
                    scope.spawn(|| registry.with("n", "w", |workflow, epoch| (workflow.current.clone(), epoch)));
                let slot = Arc::clone(registry.lock().values().next().unwrap());
                // References: the registry, this test, this operation, and the waiting operation.
                while Arc::strong_count(&slot) < 4 {
                    std::thread::yield_now();
                }
                registry.forget();
                registry.with("n", "w", |workflow, _| workflow.current = current(7));
                waiting
            });
            assert_eq!(waiting.join().unwrap(), (current(7), 2));
        });
    }
}
