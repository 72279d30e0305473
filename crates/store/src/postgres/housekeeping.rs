//! Whether the store works, and what it deletes.

use async_trait::async_trait;
use windlass_core::time::Timestamp;

use super::{PostgresStore, migrate, sweep};
use crate::{Compacted, Housekeeping, Result, Retention, Swept};

#[async_trait]
impl Housekeeping for PostgresStore {
    async fn probe(&self) -> Result<()> {
        migrate::probe(&mut self.parts.autocommit().await?).await
    }

    async fn sweep(&self, retention: Retention) -> Result<Swept> {
        let mut sql = self.parts.begin().await?;
        let outcome = sweep::sweep(&mut sql, retention).await;
        sql.end(outcome).await
    }

    async fn would_sweep(&self, before: Timestamp) -> Result<Swept> {
        sweep::count(&mut self.parts.autocommit().await?, before).await
    }

    async fn compact(&self) -> Result<Compacted> {
        Ok(Compacted::default())
    }
}
