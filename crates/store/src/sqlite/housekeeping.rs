//! Whether the store works, and what it deletes.

use async_trait::async_trait;
use windlass_core::time::Timestamp;

use super::{SqliteStore, sweep};
use crate::{Compacted, Housekeeping, Result, Retention, Swept};

#[async_trait]
impl Housekeeping for SqliteStore {
    async fn probe(&self) -> Result<()> {
        Ok(self.parts.database.probe().await?)
    }

    async fn sweep(&self, retention: Retention) -> Result<Swept> {
        self.parts.write_long(move |tx| sweep::sweep(tx, retention)).await
    }

    async fn would_sweep(&self, before: Timestamp) -> Result<Swept> {
        self.parts.read(move |sql| sweep::count(sql, before)).await
    }

    async fn compact(&self) -> Result<Compacted> {
        self.parts.compact().await
    }
}
