//! `windlass worker`, and the worker inside `windlass dev`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::{Args, ValueHint};
use temporalio_client::{Client, NamespacedClient};
use tokio_util::sync::CancellationToken;
use windlass_activities::AgentCatalog;
use windlass_api::models::{Catalogue, ModelInfo};
use windlass_core::{agent::AgentDefinition, ids::WorkspaceId};
use windlass_models::{
    ModelRegistry,
    script::{SCHEME, ScriptModel},
};
use windlass_ops::{Pairing, PairingError, RunOps};
use windlass_store::Store;
use windlass_tools::{HttpGetOptions, ToolRegistry};

use super::{
    Failure, Global, Stop, agents,
    context::{Missing, open_store},
    usage, values,
};
use crate::{
    embedded::EmbeddedHandle,
    stores::AnyStore,
    temporal::{AttributesError, Connect, ConnectError, connect, ensure_search_attributes, pollers},
    worker::{Deployment, Ports, RunWorkerOptions, WorkerService},
};

/// Between two attempts to reach a server: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(125);
/// A server that is only starting is not worth a line in the log.
const WORTH_A_WORD: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How often the server is asked whether it has seen us poll: at first, and at most.
const FIRST_READY_CHECK: Duration = Duration::from_millis(2);
const READY_CHECK: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  windlass worker --temporal temporal.internal:7233 --agents ./agents
  windlass worker --namespace prod.acct --temporal-api-key-file key.txt --temporal prod.acct.tmprl.cloud:7233
  windlass worker --deployment windlass --build-id 2026-01-31

The worker waits for a server that is not up yet. It logs `worker ready` once the server has seen it poll. On the first
SIGINT or SIGTERM it takes no new work and lets running calls end within the grace; on the second it ends at once. Runs
lose nothing either way.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WorkerCommand {
    #[command(flatten)]
    worker: WorkerArgs,

    /// How many runs are kept in memory; others are replayed when something happens to them
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_cached_runs: usize,

    /// How long running calls may go on after a stop was asked for
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = values::span)]
    grace: Duration,

    /// Worker deployment this worker belongs to; a run moves to the current build when it wakes
    #[arg(long, value_name = "NAME", requires = "build_id")]
    deployment: Option<String>,

    /// This build within the deployment; make it current with `temporal worker deployment set-current-version`
    #[arg(long, value_name = "ID", requires = "deployment")]
    build_id: Option<String>,
}

/// What a worker knows and may do.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WorkerArgs {
    /// Agent definition, or directory of them; runs can then be started by agent id
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) agents: Vec<PathBuf>,

    /// Scripts for `script:` models, beside those built in; one of the same name takes its place
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) scripts: Option<PathBuf>,

    /// Scripts that the data directory has kept from runs before.
    #[arg(skip)]
    pub(crate) kept_scripts: Option<PathBuf>,

    /// Let `http_get` reach loopback and private addresses
    #[arg(long)]
    pub(crate) http_allow_private: bool,
}

impl WorkerArgs {
    /// The scripts that were given, then those that were kept, then those that are built in.
    fn scripts(&self) -> Result<ScriptModel, Failure> {
        let files = [&self.kept_scripts, &self.scripts].into_iter().flatten();
        files.map(|path| read_scripts(path)).try_fold(ScriptModel::demos()?, |scripts, read| Ok(read?.beside(scripts)))
    }

    fn models(&self) -> Result<ModelRegistry, Failure> {
        Ok(ModelRegistry::new().with(SCHEME, Arc::new(self.scripts()?)))
    }

    /// The same models, as callers of the API choose among them.
    pub(crate) fn catalogue(&self) -> Result<Catalogue, Failure> {
        let of = |scripts: &ScriptModel| -> Vec<ModelInfo> {
            scripts.names().map(|name| ModelInfo::of(SCHEME, name)).collect()
        };
        let models = of(&self.scripts()?);
        // Scripts that were given come before those that are only there.
        let given = self.scripts.as_deref().map(read_scripts).transpose()?;
        let given = given.as_ref().map(of);
        let first = given.as_ref().unwrap_or(&models);
        let demo = first.iter().find(|model| model.vendor_model_id == "demo").or_else(|| first.first());
        let default_model_id = demo.map(|model| model.id.clone());
        Ok(Catalogue { default_model_id, models })
    }

    fn ports(&self, store: Arc<dyn Store>, agents: Vec<AgentDefinition>) -> Result<Ports, Failure> {
        let http = HttpGetOptions { allow_private: self.http_allow_private, ..HttpGetOptions::default() };
        let tools = ToolRegistry::with_builtins(store.clone(), http)?;
        Ok(Ports { store, models: self.models()?, tools, agents: AgentCatalog::from_iter(agents) })
    }
}

fn read_scripts(path: &Path) -> Result<ScriptModel, Failure> {
    ScriptModel::from_file(path).map_err(|error| usage(format!("{}: {error}", path.display())))
}

pub(super) async fn run(global: &Global, command: WorkerCommand) -> Result<ExitCode, Failure> {
    let shutdown = Stop::listen()?.into_token();
    let agents = agents::load(&command.worker.agents)?;
    let deployment = command.deployment.zip(command.build_id);
    let options = RunWorkerOptions {
        task_queue: global.task_queue.clone(),
        max_cached_runs: command.max_cached_runs,
        grace: command.grace,
        deployment: deployment.map(|(name, build_id)| Deployment { name, build_id }),
    };
    let service = Service::prepare(global, "worker", &command.worker, agents, options).await?;
    if let Some(client) = service.reach(&shutdown).await? {
        service.serve(client, &shutdown, || {}).await?;
    }
    service.close().await?;
    tracing::info!("worker stopped");
    Ok(ExitCode::SUCCESS)
}

/// Where a worker's server is.
enum ServerAt {
    Address(Connect),
    /// In this process.
    Here {
        engine: EmbeddedHandle,
        identity: String,
    },
}

/// A worker with everything but a connection.
pub(crate) struct Service {
    server: ServerAt,
    store: AnyStore,
    ports: Ports,
    options: RunWorkerOptions,
}

impl Service {
    /// Opens the store and checks everything that can be wrong before a server is needed.
    pub(crate) async fn prepare(
        global: &Global,
        role: &str,
        args: &WorkerArgs,
        agents: Vec<AgentDefinition>,
        options: RunWorkerOptions,
    ) -> Result<Self, Failure> {
        let connect = global.connect(role)?;
        let store = open_store(global, Missing::Create).await?;
        let ports = args.ports(store.port(), agents)?;
        Ok(Self { server: ServerAt::Address(connect), store, ports, options })
    }

    /// A worker in the process of its engine, on the engine's database.
    pub(crate) fn beside(
        engine: EmbeddedHandle,
        global: &Global,
        args: &WorkerArgs,
        agents: Vec<AgentDefinition>,
        options: RunWorkerOptions,
    ) -> Result<Self, Failure> {
        let identity = global.connect("worker")?.identity;
        let store = AnyStore::Sqlite(Arc::clone(engine.store()));
        let ports = args.ports(store.port(), agents)?;
        Ok(Self { server: ServerAt::Here { engine, identity }, store, ports, options })
    }

    /// Connects and makes the namespace fit, for as long as it takes. `None` when a stop was asked for meanwhile.
    pub(crate) async fn reach(&self, shutdown: &CancellationToken) -> Result<Option<Client>, Failure> {
        let mut pause = FIRST_PAUSE;
        loop {
            let Some(reached) = shutdown.run_until_cancelled(self.try_to_reach()).await else { return Ok(None) };
            let obstacle = match reached {
                Ok(client) => return Ok(Some(client)),
                Err(obstacle) => obstacle,
            };
            if !obstacle.may_pass() {
                return Err(obstacle.into());
            }
            if pause < WORTH_A_WORD {
                tracing::debug!("{obstacle}; trying again");
            } else {
                tracing::warn!("{obstacle}; trying again in {} s", pause.as_secs());
            }
            if shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return Ok(None);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Connects to a server that is there.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        Ok(self.try_to_reach().await?)
    }

    async fn try_to_reach(&self) -> Result<Client, Obstacle> {
        let client = match &self.server {
            ServerAt::Address(options) => connect(options).await?,
            ServerAt::Here { engine, identity } => engine.connect(identity).await?,
        };
        ensure_search_attributes(&client).await?;
        // Before anything is polled or served: runs that are not this store's must not come here.
        self.ops(client.clone()).pair(Pairing::Claim).await?;
        Ok(client)
    }

    fn ops(&self, client: Client) -> RunOps {
        RunOps::new(client, self.ports.store.clone(), self.options.task_queue.clone(), WorkspaceId::default())
    }

    /// Executes runs until a stop is asked for. `ready` is called once the server has seen this process poll.
    pub(crate) async fn serve(
        &self,
        client: Client,
        shutdown: &CancellationToken,
        ready: impl FnOnce() + Send + 'static,
    ) -> Result<(), Failure> {
        let service = WorkerService::new(client.clone(), self.ports.clone(), &self.options)?;
        let announced =
            tokio::spawn(announce(client, self.options.task_queue.clone(), self.ports.agents.clone(), ready));
        let served = service.run(shutdown.child_token()).await;
        announced.abort();
        Ok(served?)
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    pub(crate) async fn close(&self) -> Result<(), Failure> {
        Ok(self.store.close().await?)
    }
}

/// Says that the worker is ready when that is true.
async fn announce(client: Client, task_queue: String, agents: AgentCatalog, ready: impl FnOnce()) {
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

/// What stands between a worker and its server.
#[derive(Debug, thiserror::Error)]
enum Obstacle {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Attributes(#[from] AttributesError),
    #[error(transparent)]
    Pairing(#[from] PairingError),
}

impl Obstacle {
    /// Whether waiting may help: a server that starts is first unreachable and then has no namespaces.
    fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Connect(ConnectError::Unreachable { .. })
                | Self::Attributes(AttributesError::Refused { .. })
                | Self::Pairing(PairingError::Unanswered { .. })
        )
    }
}
