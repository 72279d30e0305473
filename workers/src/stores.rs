//! The store a process was told to use: a file of its data directory, or a Postgres database that others share.

use std::sync::Arc;

use windlass_store::{Store, StoreError, postgres::PostgresStore, sqlite::SqliteStore};

#[derive(Debug, Clone)]
pub(crate) enum AnyStore {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl AnyStore {
    pub(crate) fn port(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Postgres(store) => Arc::clone(store) as Arc<dyn Store>,
        }
    }

    /// Finishes what is being written and lets go of what it has open.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => {
                store.close();
                Ok(())
            }
        }
    }
}
