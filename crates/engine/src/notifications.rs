//! Notifies long polls when a run has changed.
//!
//! A notification is sent after the change is durable. A channel exists only while it has a receiver.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::run::updates::Progress;

/// How far a run's history has progressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    pub(crate) next_event_id: i64,
    pub(crate) closed: bool,
}

#[derive(Default)]
pub(crate) struct Notifications {
    /// By run id.
    histories: Channels<String, Position>,
    /// By run id and update id.
    updates: Channels<(String, String), UpdateStatus>,
}

/// What a caller that waits for an update is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct UpdateStatus {
    /// `None` before the first change.
    pub(crate) progress: Option<Progress>,
    /// The real server lost the update from memory and got it again from its caller.
    pub(crate) readmitted: bool,
}

impl Notifications {
    pub(crate) fn history(&self, run_id: &str) -> watch::Receiver<Position> {
        self.histories.listen(run_id.to_owned())
    }

    pub(crate) fn history_reached(&self, run_id: &str, position: Position) {
        self.histories.change(&run_id.to_owned(), |told| *told = position);
    }

    pub(crate) fn update(&self, run_id: &str, update_id: &str) -> watch::Receiver<UpdateStatus> {
        self.updates.listen((run_id.to_owned(), update_id.to_owned()))
    }

    pub(crate) fn update_reached(&self, run_id: &str, update_id: &str, progress: Progress) {
        self.updates.change(&(run_id.to_owned(), update_id.to_owned()), |standing| {
            standing.readmitted |= progress == Progress::Readmitted;
            standing.progress = Some(progress);
        });
    }

    /// Admitted updates were dropped from memory; callers that wait get an error and retry.
    pub(crate) fn forget_updates(&self) {
        self.updates.clear();
    }
}

struct Channels<K, V> {
    channels: Mutex<HashMap<K, watch::Sender<V>>>,
}

impl<K, V> Default for Channels<K, V> {
    fn default() -> Self {
        Self { channels: Mutex::default() }
    }
}

impl<K: Eq + Hash, V: Default> Channels<K, V> {
    fn listen(&self, key: K) -> watch::Receiver<V> {
        let mut channels = self.lock();
        // Channels without receivers are removed whenever the number of channels has doubled.
        if channels.len() >= 64 && channels.len().is_power_of_two() {
            channels.retain(|_, channel| channel.receiver_count() > 0);
        }
        channels.entry(key).or_insert_with(|| watch::channel(V::default()).0).subscribe()
    }

    fn change(&self, key: &K, change: impl FnOnce(&mut V)) {
        let mut channels = self.lock();
        let Some(channel) = channels.get(key) else { return };
        if channel.receiver_count() == 0 {
            channels.remove(key);
        } else {
            channel.send_modify(change);
        }
    }

    fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, watch::Sender<V>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
