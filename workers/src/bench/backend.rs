//! The backend of a measurement: the embedded engine or a Temporal server.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use temporalio_client::Client;
use windlass_store::sqlite::{Durability, Options, SqliteStore};

use crate::{
    failure::Failure,
    service::{EmbeddedOptions, RunningEmbedded, Tuning},
    temporal::{Connect, connect, ensure_search_attributes},
};

#[derive(Debug, Clone)]
pub(super) enum Backend {
    /// The engine in this process.
    Embedded,
    /// A Temporal server.
    Address(Connect),
}

impl Backend {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Embedded => "embedded".to_owned(),
            Self::Address(connect) => format!("temporal://{}", connect.address),
        }
    }
}

/// An open backend and its store.
pub(super) struct Opened {
    pub(super) client: Client,
    pub(super) store: Arc<SqliteStore>,
    /// The database file of this process.
    pub(super) database: PathBuf,
    engine: Option<RunningEmbedded>,
}

/// The database of a data directory.
pub(super) fn database(data_dir: &Path) -> PathBuf {
    data_dir.join("windlass.db")
}

/// Opens a backend in a data directory.
pub(super) async fn open(backend: &Backend, data_dir: &Path, durability: Durability) -> Result<Opened, Failure> {
    let database = database(data_dir);
    let connect_to = match backend {
        Backend::Address(connect_to) => connect_to,
        Backend::Embedded => {
            let engine = RunningEmbedded::start(EmbeddedOptions {
                data_dir: data_dir.to_owned(),
                durability,
                namespace: "default".to_owned(),
                listen: None,
                tuning: Tuning::default(),
            })
            .await?;
            let client = engine.handle.connect("windlass-bench").await?;
            ensure_search_attributes(&client).await?;
            let store = Arc::clone(engine.handle.store());
            return Ok(Opened { client, store, database, engine: Some(engine) });
        }
    };
    let client = connect(connect_to).await?;
    ensure_search_attributes(&client).await?;
    let store = Arc::new(SqliteStore::open(Options { durability, ..Options::new(&database) })?);
    Ok(Opened { client, store, database, engine: None })
}

impl Opened {
    /// Syncs of the store so far.
    pub(super) fn store_syncs(&self) -> u64 {
        self.store.stats().commits
    }

    /// All syncs so far; unknown for a Temporal server.
    pub(super) fn syncs(&self) -> Option<u64> {
        self.engine.as_ref().map(|engine| engine.handle.database().stats().syncs)
    }

    pub(super) async fn close(self) -> Result<(), Failure> {
        match self.engine {
            Some(engine) => Ok(engine.stop().await?),
            None => Ok(self.store.close().await?),
        }
    }
}
