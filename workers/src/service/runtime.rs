//! A store, a way to Temporal and the catalogues together: what `dev`, `serve`, `worker` and the server inside a command
//! have in common.

use std::{sync::Arc, time::Duration};

use temporalio_client::{Client, NamespacedClient};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_activities::AgentCatalog;
use windlass_api::Handle;
use windlass_core::{ids::WorkspaceId, time::friendly};
use windlass_ops::{Pairing, PairingError, RunOps};

use super::{AnyStore, ApiOptions, EmbeddedHandle, Ports, RunWorkerOptions, WorkerService};
use crate::{
    failure::Failure,
    temporal::{AttributesError, Connect, ConnectError, connect, ensure_search_attributes, pollers},
};

/// The first and the longest pause between two attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(125);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Failed attempts are logged as warnings from this pause on. Before that, the server is probably still starting.
const WARN_FROM: Duration = Duration::from_secs(1);
/// The first and the longest pause between two checks whether the server has seen this worker poll.
const FIRST_READY_CHECK: Duration = Duration::from_millis(2);
const READY_CHECK: Duration = Duration::from_millis(100);

/// How Temporal is reached.
enum Server {
    Address(Connect),
    /// The engine in this process.
    Embedded {
        engine: EmbeddedHandle,
        identity: String,
    },
}

/// Everything that a worker and an API server need, except a connection.
pub struct Runtime {
    server: Server,
    store: AnyStore,
    ports: Ports,
    options: RunWorkerOptions,
}

impl Runtime {
    /// On a Temporal server. The ports must be loaded from this store.
    pub fn at_address(connect: Connect, store: AnyStore, ports: Ports, options: RunWorkerOptions) -> Self {
        Self { server: Server::Address(connect), store, ports, options }
    }

    /// On the engine in this process, with the engine's store. The ports must be loaded from that store.
    pub fn on_engine(engine: EmbeddedHandle, identity: String, ports: Ports, options: RunWorkerOptions) -> Self {
        let store = AnyStore::Sqlite(Arc::clone(engine.store()));
        Self { server: Server::Embedded { engine, identity }, store, ports, options }
    }

    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Connects, and tries again until it succeeds or an error occurs that time does not mend. `None` if the shutdown came
    /// first.
    pub async fn connect_until_up(&self, shutdown: &CancellationToken) -> Result<Option<Client>, Failure> {
        let mut pause = FIRST_PAUSE;
        loop {
            let Some(connected) = shutdown.run_until_cancelled(self.try_connect()).await else { return Ok(None) };
            let error = match connected {
                Ok(client) => return Ok(Some(client)),
                Err(error) => error,
            };
            if !error.is_temporary() {
                return Err(error.into());
            }
            if pause < WARN_FROM {
                tracing::debug!("{error}; trying again");
            } else {
                tracing::warn!("{error}; trying again in {}", friendly::print(pause));
            }
            if shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return Ok(None);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Connects once.
    pub async fn connect(&self) -> Result<Client, Failure> {
        Ok(self.try_connect().await?)
    }

    async fn try_connect(&self) -> Result<Client, ReachError> {
        let client = match &self.server {
            Server::Address(options) => connect(options).await?,
            Server::Embedded { engine, identity } => engine.connect(identity).await?,
        };
        ensure_search_attributes(&client).await?;
        // Before this process polls or serves: it must not get runs that belong to another store.
        self.ops(client.clone(), WorkspaceId::default()).pair(Pairing::Claim).await?;
        Ok(client)
    }

    fn ops(&self, client: Client, workspace: WorkspaceId) -> RunOps {
        RunOps::new(client, self.ports.store.clone(), self.options.task_queue.clone(), workspace)
    }

    /// An API server on this listener.
    pub fn api(
        &self,
        options: &ApiOptions,
        listener: TcpListener,
        client: Client,
        workspace: WorkspaceId,
    ) -> Result<(windlass_api::Service, Handle), Failure> {
        Ok(windlass_api::Service::new(listener, options.on(self.ops(client, workspace), &self.ports))?)
    }

    /// Runs a worker until the shutdown. `ready` is called once the server has seen it poll.
    pub async fn run_worker(
        &self,
        client: Client,
        shutdown: &CancellationToken,
        ready: impl FnOnce() + Send + 'static,
    ) -> Result<(), Failure> {
        let worker = WorkerService::new(client.clone(), self.ports.clone(), &self.options)?;
        let (task_queue, agents) = (self.options.task_queue.clone(), self.ports.agents.clone());
        let announced = tokio::spawn(report_ready(client, task_queue, agents, ready));
        let ended = worker.run(shutdown.child_token()).await;
        announced.abort();
        Ok(ended?)
    }

    pub async fn close(&self) -> Result<(), Failure> {
        Ok(self.store.close().await?)
    }
}

/// Logs that the worker is ready once the server lists it as a poller.
async fn report_ready(client: Client, task_queue: String, agents: AgentCatalog, ready: impl FnOnce()) {
    let identity = client.identity();
    let mut pause = FIRST_READY_CHECK;
    loop {
        if pollers(&client, &task_queue).await.is_ok_and(|pollers| pollers.include(&identity)) {
            break;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(READY_CHECK);
    }
    let agents = agents.ids().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    tracing::info!(namespace = %client.namespace(), %task_queue, %agents, "worker ready");
    ready();
}

/// Why a process cannot use a Temporal server.
#[derive(Debug, thiserror::Error)]
enum ReachError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Attributes(#[from] AttributesError),
    #[error(transparent)]
    Pairing(#[from] PairingError),
}

impl ReachError {
    /// Whether another attempt may succeed: a starting server is first unreachable and then has no namespaces.
    fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::Connect(ConnectError::Unreachable { .. })
                | Self::Attributes(AttributesError::Refused { .. })
                | Self::Pairing(PairingError::Unanswered { .. })
        )
    }
}
