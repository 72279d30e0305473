//! The store: a SQLite file in the data directory, or a Postgres database that several processes share.

use std::{path::PathBuf, sync::Arc};

use windlass_store::{
    Store, StoreError,
    postgres::{self, PostgresStore},
    sqlite::{Options, SqliteStore},
};

use crate::failure::{Failure, failed};

/// The database file of a data directory. The embedded engine and the store share it.
pub(crate) const DATABASE: &str = "windlass.db";

/// Where the store is.
#[derive(Debug, Clone)]
pub enum StoreLocation {
    DataDir(PathBuf),
    Postgres(postgres::Options),
}

/// What to do if the data directory has no store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Create,
    /// For commands that only read: a new store would be empty, so the directory is probably wrong.
    Refuse,
}

impl StoreLocation {
    pub async fn open(&self, missing: Missing) -> Result<AnyStore, Failure> {
        match self {
            Self::Postgres(options) => Ok(AnyStore::Postgres(Arc::new(PostgresStore::connect(options.clone()).await?))),
            Self::DataDir(data_dir) => {
                self.check(missing)?;
                Ok(AnyStore::Sqlite(Arc::new(SqliteStore::open(Options::new(data_dir.join(DATABASE)))?)))
            }
        }
    }

    /// Fails if the data directory has no store and must not get one.
    pub fn check(&self, missing: Missing) -> Result<(), Failure> {
        match self {
            Self::DataDir(data_dir) if missing == Missing::Refuse && !data_dir.join(DATABASE).exists() => {
                Err(failed(format!(
                    "there is no store at {}; start `windlass dev` or `windlass worker` first, or set --data-dir",
                    data_dir.join(DATABASE).display()
                )))
            }
            Self::DataDir(_) | Self::Postgres(_) => Ok(()),
        }
    }
}

/// An open store.
#[derive(Debug, Clone)]
pub enum AnyStore {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl AnyStore {
    pub fn port(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Postgres(store) => Arc::clone(store) as Arc<dyn Store>,
        }
    }

    /// Completes pending writes and closes files and connections.
    pub async fn close(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => {
                store.close();
                Ok(())
            }
        }
    }
}
