//! When the turns of schedules are due, and one lock for each schedule.
//!
//! A schedule that waits is a row on disk and an entry here. Its turns are in `service::schedules`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_sqlite::{Ack, DatabaseError};

use crate::{clock::SkippingClock, core::Core, persist, registry::RunKey, time::Nanos, wakeups::Wakeups};

/// Identifies a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ScheduleKey {
    pub(crate) namespace: Arc<str>,
    pub(crate) schedule_id: Arc<str>,
}

impl ScheduleKey {
    pub(crate) fn new(namespace: &str, schedule_id: &str) -> Self {
        Self { namespace: namespace.into(), schedule_id: schedule_id.into() }
    }

    /// A key beside those of runs, for the clock. No run has an empty run id.
    pub(crate) fn among_runs(&self) -> RunKey {
        RunKey { namespace: self.namespace.clone(), workflow_id: self.schedule_id.clone(), run_id: "".into() }
    }
}

#[derive(Default)]
pub(crate) struct Schedules {
    wakeups: Wakeups<ScheduleKey>,
    /// Locks in use.
    locks: Mutex<HashMap<ScheduleKey, Weak<tokio::sync::Mutex<()>>>>,
}

impl Schedules {
    /// Sets the time of the next turn.
    pub(crate) fn set(&self, at: Nanos, key: ScheduleKey) {
        self.wakeups.set(at, key);
    }

    /// Makes a turn due at once: a run of the schedule has ended.
    pub(crate) fn wake(&self, key: ScheduleKey) {
        self.wakeups.set(0, key);
    }

    /// Allows one turn or request of a schedule at a time.
    pub(crate) async fn lock(&self, key: &ScheduleKey) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            match locks.get(key).and_then(Weak::upgrade) {
                Some(lock) => lock,
                None => {
                    locks.retain(|_, lock| lock.strong_count() > 0);
                    let lock = Arc::new(tokio::sync::Mutex::new(()));
                    locks.insert(key.clone(), Arc::downgrade(&lock));
                    lock
                }
            }
        };
        lock.lock_owned().await
    }
}

impl Core {
    /// Fills the wake-ups from disk, after a start and after a failed commit.
    pub(crate) fn recover_schedules(&self) -> Result<(), DatabaseError> {
        let waiting = self.database.read_blocking(|sql| Ok::<_, DatabaseError>(persist::waiting_schedules(sql)?))?;
        for persist::WaitingSchedule { namespace, schedule_id, next_due, busy } in waiting {
            let key = ScheduleKey::new(&namespace, &schedule_id);
            let clock = self.clock.skipping();
            clock.inspect(|clock| clock.set_schedule(&key, next_due));
            if let Some(at) = next_due {
                self.schedules.set(at, key.clone());
            }
            if busy {
                clock.inspect(|clock| clock.set_schedule_at_work(&key));
                self.schedules.wake(key);
            }
        }
        Ok(())
    }

    pub(crate) async fn remove_closed_schedules(&self, namespace: &str, before: Nanos) {
        // Mostly there are none, and a write would be queued before those of clients.
        if let Ok(false) = self.read(|sql| persist::has_closed_schedules(sql, namespace, before)) {
            return;
        }
        let name = namespace.to_owned();
        let removed =
            self.database.apply(Ack::Relaxed, move |tx| persist::remove_closed_schedules(tx, &name, before)).await;
        if let Err(error) = removed {
            tracing::warn!(%error, namespace, "closed schedules could not be removed; they are tried again at the next sweep");
        }
    }
}

/// Takes the turns that are due until `shutdown` is cancelled.
pub(crate) async fn take_turns(core: &Arc<Core>, shutdown: &CancellationToken) {
    let wakeups = &core.schedules.wakeups;
    // Turns that are aborted continue after the next start.
    let mut turns = JoinSet::new();
    loop {
        for key in wakeups.due(core.now()) {
            // Time must not jump before the turn has begun.
            core.clock.skipping().inspect(|clock: &&SkippingClock| clock.set_schedule_at_work(&key));
            turns.spawn(Arc::clone(core).due_turn(key));
        }
        let next = wakeups.next();
        let reached = async {
            match next {
                Some(at) => core.clock.reach(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = wakeups.changed() => {}
            () = reached => {}
            Some(_) = turns.join_next() => {}
        }
    }
}
