//! Checks that a run belongs to the store's own installation.

use async_trait::async_trait;
use temporalio_sdk::activities::ActivityError;
use tokio::sync::OnceCell;
use windlass_core::ids::{InstallationId, RunId};

use crate::{RunActivities, failures};

/// Looks up which installation a run belongs to, on the server.
#[async_trait]
pub trait Owners: Send + Sync + 'static {
    /// Which installation a run belongs to, if that can be found out.
    async fn owner_of(&self, run: &RunId) -> Option<InstallationId>;

    /// A run of another installation came to this worker.
    async fn met_foreign_run(&self, run: &RunId, found: &InstallationId);
}

/// The store's installation, asked for once.
#[derive(Debug, Default)]
pub(crate) struct Own(OnceCell<InstallationId>);

impl RunActivities {
    /// Fails with a retryable error if the run belongs to another installation.
    pub(crate) async fn check_owner(&self, run: &RunId, said: Option<&InstallationId>) -> Result<(), ActivityError> {
        let Some(found) = said else { return Ok(()) };
        let own = self.own.0.get_or_try_init(async || Ok(self.store.installation().await?.id)).await;
        let own = own.map_err(|error| failures::store(&error))?;
        if own == found {
            return Ok(());
        }
        self.owners.met_foreign_run(run, found).await;
        Err(failures::foreign(own, found))
    }

    /// The result of an activity. A store without the run's data may be the wrong store: then the run must not fail.
    pub(crate) async fn judged<T>(&self, run: &RunId, done: Result<T, ActivityError>) -> Result<T, ActivityError> {
        if let Err(error) = &done
            && failures::lacks_the_run(error)
        {
            self.check_owner(run, self.owners.owner_of(run).await.as_ref()).await?;
        }
        done
    }
}
