//! The embedded engine and the store, in this process, on one database.
//!
//! They share one file, one write-ahead log and one writer, so one sync makes both an activity's writes and its completion
//! durable.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use temporalio_client::Client;
use temporalio_protos::temporal::api::enums::v1::IndexedValueType;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use windlass_engine::{DirectoryLock, Engine, EngineError, Handle, Limits, NamespaceOptions, Options, grpc};
use windlass_sqlite::{Ack, Database, DatabaseError, Durability};
use windlass_store::{StoreError, sqlite::SqliteStore};
use windlass_workflows::attributes;

use super::store::DATABASE;
use crate::temporal::{ConnectError, connect_embedded};

#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    pub data_dir: PathBuf,
    pub durability: Durability,
    pub namespace: String,
    /// The engine's TCP address for other processes. Without it, the engine has no port.
    pub listen: Option<SocketAddr>,
    pub tuning: Tuning,
}

/// What few engines set.
#[derive(Debug, Clone, Default)]
pub struct Tuning {
    pub limits: Limits,
    /// The directory for archives of closed runs.
    pub archive: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "OPS0007: cannot listen on {address}: {reason}; stop the process that listens there, or choose another port"
    )]
    Listen { address: SocketAddr, reason: std::io::Error },
}

impl From<DatabaseError> for EmbeddedError {
    fn from(error: DatabaseError) -> Self {
        Self::Engine(error.into())
    }
}

/// Engine and store, opened and not running yet.
pub struct Embedded {
    engine: Engine,
    handle: Handle,
    listener: Option<TcpListener>,
    _lock: DirectoryLock,
}

/// Access to the engine and the store.
#[derive(Clone)]
pub struct EmbeddedHandle {
    engine: Handle,
    store: Arc<SqliteStore>,
    database: Database,
    namespace: String,
    address: Option<SocketAddr>,
}

impl Embedded {
    pub async fn open(options: EmbeddedOptions) -> Result<(Self, EmbeddedHandle), EmbeddedError> {
        let EmbeddedOptions { data_dir, durability, namespace, listen, tuning } = options;
        let lock = DirectoryLock::acquire(&data_dir)?;
        let listener = match listen {
            Some(address) => {
                let failed = |reason| EmbeddedError::Listen { address, reason };
                Some(TcpListener::bind(address).await.map_err(failed)?)
            }
            None => None,
        };
        let path = data_dir.join(DATABASE);
        windlass_store::sqlite::upgrade(&path)?;
        let database = Database::open(windlass_sqlite::Options { durability, ..windlass_sqlite::Options::new(path) })?;
        let store = SqliteStore::on(database.clone(), windlass_store::system_clock(), Ack::Relaxed)?;
        let known = attributes::NAMES.map(|name| (name.to_owned(), IndexedValueType::Keyword));
        let engine_options = Options {
            namespaces: vec![NamespaceOptions { name: namespace.clone(), search_attributes: known.into() }],
            limits: tuning.limits,
            archive: tuning.archive,
            ..Options::new(database.clone())
        };
        let (engine, handle) = Engine::open(engine_options)?;
        let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let store = Arc::new(store);
        let reach = EmbeddedHandle { engine: handle.clone(), store, database, namespace, address };
        Ok((Self { engine, handle, listener, _lock: lock }, reach))
    }

    /// Runs until the shutdown.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), EmbeddedError> {
        let Self { engine, handle, listener, _lock } = self;
        let port = async {
            if let Some(listener) = listener {
                grpc::serve(listener, move |call| handle.call(call), shutdown.clone()).await;
            }
        };
        let (engine, ()) = tokio::join!(engine.run(shutdown.clone()), port);
        Ok(engine?)
    }
}

/// Engine and store, running in a task.
pub struct RunningEmbedded {
    pub handle: EmbeddedHandle,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), EmbeddedError>>,
}

impl RunningEmbedded {
    pub async fn start(options: EmbeddedOptions) -> Result<Self, EmbeddedError> {
        let (embedded, handle) = Embedded::open(options).await?;
        let stop = CancellationToken::new();
        let ended = tokio::spawn(embedded.run(stop.clone()));
        Ok(Self { handle, stop, ended })
    }

    /// Stops the engine, then completes pending writes.
    pub async fn stop(self) -> Result<(), EmbeddedError> {
        self.stop.cancel();
        match self.ended.await {
            Ok(ended) => ended?,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
        self.handle.close().await
    }
}

impl EmbeddedHandle {
    /// A client that calls the engine in process.
    pub async fn connect(&self, identity: &str) -> Result<Client, ConnectError> {
        connect_embedded(&self.engine, &self.namespace, identity).await
    }

    pub fn store(&self) -> &Arc<SqliteStore> {
        &self.store
    }

    pub fn database(&self) -> &Database {
        &self.database
    }

    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Completes pending writes and closes the file.
    pub async fn close(&self) -> Result<(), EmbeddedError> {
        self.store.close().await?;
        Ok(self.database.close().await?)
    }
}
