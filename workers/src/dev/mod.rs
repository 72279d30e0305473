//! Everything on one machine: `windlass dev`, and the server that a command starts in its own process if it finds none.
//!
//! Engine, store, worker and API server run in this process, on one database in the data directory, so runs continue after
//! any stop, crash or restart. Instead of the engine, `windlass dev` can use a Temporal server that is already running, or
//! start and supervise the Temporal CLI's dev server.

mod address;
mod binary;
mod examples;
mod here;
mod home;
mod key;
mod process;
mod scripts;
mod server;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_api::auth::ApiKey;
use windlass_core::{agent::AgentDefinition, ids::WorkspaceId};
use windlass_sqlite::Durability;

use self::{
    address::Announced,
    home::Home,
    server::{Server, ServerOptions},
};
pub(crate) use self::{address::address_of, examples::assistant_model, here::Here};
use crate::{
    config::Config,
    failure::Failure,
    service::{
        ApiOptions, CatalogueOptions, EmbeddedOptions, Missing, RunWorkerOptions, RunningEmbedded, Runtime, SecretKeys,
        StoreLocation, Tuning,
    },
    temporal::Connect,
};

/// How long activities may continue after Ctrl-C.
const GRACE: Duration = Duration::from_secs(3);
/// The pause before a worker that failed is started again.
const WORKER_PAUSE: Duration = Duration::from_secs(1);

/// The installation on a data directory.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) data_dir: PathBuf,
    pub(crate) namespace: String,
    pub(crate) task_queue: String,
    pub(crate) workspace: WorkspaceId,
    pub(crate) secret_keys: SecretKeys,
    /// The identity of this process towards Temporal.
    pub(crate) identity: String,
}

/// What to start.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) place: Place,
    pub(crate) temporal: Temporal,
    pub(crate) agents: Vec<AgentDefinition>,
    pub(crate) catalogues: CatalogueOptions,
    pub(crate) api: ApiOptions,
    /// The API key to use. Without it, a key is created and kept in the data directory.
    pub(crate) api_key: Option<SecretString>,
}

/// Where histories are stored.
#[derive(Debug)]
pub(crate) enum Temporal {
    /// In the embedded engine, which also listens on a TCP port.
    Engine { port: u16, durability: Durability, tuning: Tuning },
    /// In the Temporal CLI's dev server, started and supervised by this process.
    DevServer { port: u16, ui_port: u16, cli: Option<PathBuf>, connect: Connect, store: StoreLocation },
    /// In a Temporal server that is already running.
    Address { connect: Connect, store: StoreLocation },
}

/// Everything is up.
#[derive(Debug)]
pub(crate) struct Ready {
    /// URL of the API.
    pub(crate) api: String,
    pub(crate) key: ApiKey,
    /// Address of the Temporal frontend.
    pub(crate) temporal: String,
    /// URL of the Temporal web UI, if it was started.
    pub(crate) ui: Option<String>,
    /// Absolute.
    pub(crate) data_dir: PathBuf,
}

/// [`Temporal`], running.
enum History {
    Engine(RunningEmbedded),
    DevServer { server: Server, connect: Connect, store: StoreLocation },
    Address { connect: Connect, store: StoreLocation },
}

/// Runs until the shutdown. `ready` is called once, when everything is up.
pub(crate) async fn run(
    options: Options,
    shutdown: CancellationToken,
    ready: impl FnOnce(Ready) + Send + 'static,
) -> Result<(), Failure> {
    let began = Instant::now();
    let Options { place, temporal, agents, mut catalogues, api, api_key } = options;
    let home = Home::lock(&place.data_dir)?;
    catalogues.kept_scripts = scripts::kept(home.directory());
    let listener = api.bind().await?;
    let history = History::open(temporal, &place, &home).await?;
    tracing::info!(ms = millis(began), "history is open");
    let composed = compose(&history, &place, with_examples(agents, &catalogues.config)?, &catalogues).await;
    let worked = match composed {
        Ok(runtime) => {
            let server = DevServer { runtime, place, home, api, api_key, began };
            server.work(listener, &history, &shutdown, ready).await
        }
        Err(failure) => Err(failure),
    };
    // The worker stops first: it reports completed activities to the server.
    history.stop().await?;
    worked
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The agents that were given, and the examples whose ids are free.
fn with_examples(mut agents: Vec<AgentDefinition>, config: &Config) -> Result<Vec<AgentDefinition>, Failure> {
    let given: Vec<_> = agents.iter().map(|agent| agent.id.clone()).collect();
    agents.extend(examples::agents(config)?.into_iter().filter(|agent| !given.contains(&agent.id)));
    Ok(agents)
}

impl History {
    async fn open(temporal: Temporal, place: &Place, home: &Home) -> Result<Self, Failure> {
        let namespace = place.namespace.clone();
        Ok(match temporal {
            Temporal::Address { connect, store } => {
                tracing::info!("using the Temporal server at {}; the embedded engine is not started", connect.address);
                Self::Address { connect, store }
            }
            Temporal::Engine { port, durability, tuning } => {
                let listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
                let data_dir = home.directory().to_owned();
                let options = EmbeddedOptions { data_dir, durability, namespace, listen, tuning };
                Self::Engine(RunningEmbedded::start(options).await?)
            }
            Temporal::DevServer { port, ui_port, cli, connect, store } => {
                let binary = binary::find_or_install(cli.as_deref(), home.directory()).await?;
                let server = Server::start(binary, home, ServerOptions { port, ui_port, namespace }).await?;
                Self::DevServer { server, connect, store }
            }
        })
    }

    /// Address of the Temporal frontend.
    fn address(&self) -> String {
        match self {
            Self::Engine(engine) => engine.handle.address().map(|address| address.to_string()).unwrap_or_default(),
            Self::DevServer { connect, .. } | Self::Address { connect, .. } => connect.address.clone(),
        }
    }

    async fn stop(self) -> Result<(), Failure> {
        match self {
            Self::Engine(engine) => engine.stop().await?,
            Self::DevServer { server, .. } => server.stop().await,
            Self::Address { .. } => {}
        }
        Ok(())
    }
}

/// Opens the store and loads the catalogues.
async fn compose(
    history: &History,
    place: &Place,
    agents: Vec<AgentDefinition>,
    catalogues: &CatalogueOptions,
) -> Result<Runtime, Failure> {
    let options =
        RunWorkerOptions { task_queue: place.task_queue.clone(), grace: GRACE, ..RunWorkerOptions::default() };
    match history {
        History::Engine(engine) => {
            let ports = catalogues.load(engine.handle.store().clone(), agents, &place.secret_keys)?;
            Ok(Runtime::on_engine(engine.handle.clone(), place.identity.clone(), ports, options))
        }
        History::DevServer { connect, store, .. } | History::Address { connect, store } => {
            let store = store.open(Missing::Create).await?;
            let ports = catalogues.load(store.port(), agents, &place.secret_keys)?;
            Ok(Runtime::at_address(connect.clone(), store, ports, options))
        }
    }
}

/// A worker and an API server on one data directory.
struct DevServer {
    runtime: Runtime,
    place: Place,
    home: Home,
    api: ApiOptions,
    api_key: Option<SecretString>,
    began: Instant,
}

impl DevServer {
    /// Keeps the worker and the API server running until the shutdown.
    async fn work(
        self,
        listener: TcpListener,
        history: &History,
        shutdown: &CancellationToken,
        ready: impl FnOnce(Ready) + Send + 'static,
    ) -> Result<(), Failure> {
        let broken = async {
            match history {
                History::DevServer { server, .. } => server.broken().await,
                History::Engine(_) | History::Address { .. } => std::future::pending().await,
            }
        };
        tokio::select! {
            served = self.serve(listener, history, shutdown, ready) => served?,
            broken = broken => return Err(broken),
        }
        self.runtime.close().await
    }

    async fn serve(
        &self,
        listener: TcpListener,
        history: &History,
        shutdown: &CancellationToken,
        ready: impl FnOnce(Ready) + Send + 'static,
    ) -> Result<(), Failure> {
        let Self { runtime, place, home, api, api_key, began } = self;
        let key = key::ensure(&*runtime.ports().store, &place.workspace, api_key.as_ref(), home.directory()).await?;
        if let History::DevServer { server, .. } = history {
            tracing::info!("the Temporal server is starting");
            shutdown.run_until_cancelled(server.listening()).await;
        }
        let Some(mut client) = runtime.connect_until_up(shutdown).await? else { return Ok(()) };
        let (api, handle) = runtime.api(api, listener, client.clone(), place.workspace.clone())?;
        let url = format!("http://{}", handle.address);
        let _announced = Announced::write(home.directory(), &url, &key)?;
        let ui = match history {
            History::DevServer { server, .. } => Some(format!("http://127.0.0.1:{}", server.ui_port())),
            History::Engine(_) | History::Address { .. } => None,
        };
        let (temporal, data_dir) = (history.address(), home.directory().to_owned());
        let report = (ready, Ready { api: url, key, temporal, ui, data_dir });
        // The worker may be started again; the report is made once.
        let report = Arc::new(Mutex::new(Some(report)));
        let worker = async {
            loop {
                let (report, began, workspace) = (Arc::clone(&report), *began, place.workspace.clone());
                let on_ready = move || {
                    tracing::info!(ms = millis(began), "ready since the start");
                    if let Some((ready, facts)) = report.lock().unwrap_or_else(PoisonError::into_inner).take() {
                        let Ready { temporal, ui, data_dir, .. } = &facts;
                        tracing::info!(temporal, ui, data = %data_dir.display(), %workspace, "serving");
                        ready(facts);
                    }
                };
                match runtime.run_worker(client, shutdown, on_ready).await {
                    Ok(()) => return Ok::<(), Failure>(()),
                    Err(failure) => tracing::warn!("{failure}"),
                }
                tokio::time::sleep(WORKER_PAUSE).await;
                match runtime.connect_until_up(shutdown).await? {
                    Some(connected) => client = connected,
                    None => return Ok(()),
                }
            }
        };
        let ((), worked) = tokio::join!(api.run(shutdown.clone()), worker);
        worked
    }
}
