//! Model responses on their way to the disk.
//!
//! A run goes on while its response is synced, but calls neither a tool nor a model before that: what happens outside must
//! not be ahead of what is recorded. Only responses of this process count; what another one has left behind is on the disk
//! or is lost.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;
use windlass_core::ids::RunId;

#[derive(Default)]
pub(super) struct Unsynced {
    runs: Mutex<HashMap<RunId, watch::Receiver<bool>>>,
}

/// The last response of a run until it is synced. Dropped before that if it is lost.
pub(super) struct Response {
    run: RunId,
    synced: watch::Sender<bool>,
    registry: Arc<Unsynced>,
}

impl Unsynced {
    pub(super) fn begin(self: &Arc<Self>, run: &RunId) -> Arc<Response> {
        let synced = watch::Sender::new(false);
        self.lock().insert(run.clone(), synced.subscribe());
        Arc::new(Response { run: run.clone(), synced, registry: Arc::clone(self) })
    }

    /// Waits until the run's last response is synced. Returns false if that will never be.
    pub(super) async fn wait(&self, run: &RunId) -> bool {
        let waiting = self.lock().get(run).cloned();
        match waiting {
            None => true,
            Some(mut waiting) => waiting.wait_for(|synced| *synced).await.is_ok(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, watch::Receiver<bool>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Response {
    pub(super) fn synced(&self) {
        self.synced.send_replace(true);
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        let mut runs = self.registry.lock();
        // A later response of the run has its own entry.
        if runs.get(&self.run).is_some_and(|waiting| waiting.same_channel(&self.synced.subscribe())) {
            runs.remove(&self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_run_waits_until_its_last_response_is_synced_or_lost() {
        let unsynced = Arc::new(Unsynced::default());
        let run = RunId::from("run");
        assert!(unsynced.wait(&run).await);

        let (first, second) = (unsynced.begin(&run), unsynced.begin(&run));
        first.synced();
        drop(first);
        let mut waiting = Box::pin(unsynced.wait(&run));
        assert!(timeout(Duration::ZERO, &mut waiting).await.is_err());
        second.synced();
        assert!(waiting.await);

        let lost = unsynced.begin(&run);
        let mut waiting = Box::pin(unsynced.wait(&run));
        assert!(timeout(Duration::ZERO, &mut waiting).await.is_err());
        drop(lost);
        assert!(!waiting.await);
        drop(second);
        assert!(unsynced.wait(&run).await && unsynced.lock().is_empty());
    }
}
