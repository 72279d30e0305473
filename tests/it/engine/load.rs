//! Random workflows, driven by many clients at once and executed by one worker.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, task::JoinSet};

use super::{client::Client, driver::Driver, journal::Journal, verify::Evidence, worker::Worker};
use crate::proofs::dice::Dice;

/// Longer than anything takes that was not lost.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Load {
    pub(super) journal: Arc<Journal>,
    client: Client,
    drivers: JoinSet<()>,
    stop: watch::Sender<bool>,
    _pollers: JoinSet<()>,
}

impl Load {
    /// Each driver starts a new workflow when its last one has ended.
    pub(super) fn begin(client: Client, drivers: u64, pollers: u64, seed: u64) -> Self {
        let journal = Arc::new(Journal::default());
        let pollers = Worker::new(client.clone(), Arc::clone(&journal)).poll(pollers, seed);
        let (stop, stopped) = watch::channel(false);
        let names = Arc::new(AtomicUsize::new(0));
        let mut driving = JoinSet::new();
        for n in 0..drivers {
            let driver = Driver { client: client.clone(), journal: Arc::clone(&journal) };
            let (stopped, names) = (stopped.clone(), Arc::clone(&names));
            let mut dice = Dice::seeded(seed.wrapping_add(n << 32));
            driving.spawn(async move {
                loop {
                    let name = names.fetch_add(1, Ordering::Relaxed);
                    driver.drive(&format!("w{name}"), &mut dice).await;
                    if *stopped.borrow() {
                        return;
                    }
                }
            });
        }
        Self { journal, client, drivers: driving, stop, _pollers: pollers }
    }

    /// Waits for the workflows in progress, and reads their histories.
    pub(super) async fn finish(mut self) -> (Arc<Journal>, Evidence) {
        self.stop.send_replace(true);
        let all_ended = tokio::time::timeout(PATIENCE, async {
            while let Some(driven) = self.drivers.join_next().await {
                driven.unwrap();
            }
        });
        let all_ended = all_ended.await.is_ok();
        let evidence = Evidence::gather(&self.client, &self.journal).await;
        assert!(all_ended, "not every workflow ends:\n{}", evidence.open_runs());
        (self.journal, evidence)
    }
}
