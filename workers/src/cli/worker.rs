//! `windlass worker`: a worker that polls a task queue.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::{Args, ValueHint};
use windlass_core::agent::AgentDefinition;

use super::{Failure, Global, Stop, values};
use crate::service::{CatalogueOptions, Deployment, Missing, RunWorkerOptions, Runtime, agents};

const EXAMPLES: &str = "\
Examples:
  windlass worker --temporal temporal.internal:7233 --agents ./agents
  windlass worker --namespace prod.acct --temporal-api-key-file key.txt --temporal prod.acct.tmprl.cloud:7233
  windlass worker --deployment windlass --build-id 2026-01-31

The worker waits for a Temporal server that is not up yet. It logs `worker ready` once the server has seen it poll. On the
first SIGINT or SIGTERM it takes no new tasks and gives running activities the grace period; on the second it exits at
once. Runs lose nothing in either case.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WorkerCommand {
    #[command(flatten)]
    catalogues: CatalogueArgs,

    /// Number of runs in the workflow cache; a run that is not cached is replayed when it has a new task
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_cached_runs: usize,

    /// How long running activities may continue after SIGINT or SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::span)]
    grace: Duration,

    /// Worker deployment of this worker; runs are auto-upgrade: a run moves to the current build at its next workflow task
    #[arg(long, value_name = "NAME", requires = "build_id")]
    deployment: Option<String>,

    /// Build id of this worker; make it current with `temporal worker deployment set-current-version`
    #[arg(long, value_name = "ID", requires = "deployment")]
    build_id: Option<String>,
}

/// Agents, models and tools: what the worker executes and the API lists.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CatalogueArgs {
    /// Agent definition, or directory of them; runs can then be started by agent id
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    agents: Vec<PathBuf>,

    /// Scripts for `script:` models; they replace built-in scripts of the same name
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    scripts: Option<PathBuf>,

    /// Let `http_get` reach loopback and private addresses
    #[arg(long)]
    http_allow_private: bool,
}

impl CatalogueArgs {
    /// Reads the agent definitions; the rest of the catalogues is loaded with the store.
    pub(super) fn load_agents(&self, global: &Global) -> Result<(Vec<AgentDefinition>, CatalogueOptions), Failure> {
        let options = CatalogueOptions {
            scripts: self.scripts.clone(),
            kept_scripts: None,
            http_allow_private: self.http_allow_private,
            config: Arc::clone(global.config()),
        };
        Ok((agents::load(&self.agents)?, options))
    }
}

/// A runtime on the Temporal server and the store that the options name.
pub(super) async fn compose(
    global: &Global,
    role: &str,
    catalogues: &CatalogueArgs,
    options: RunWorkerOptions,
) -> Result<Runtime, Failure> {
    let (agents, catalogues) = catalogues.load_agents(global)?;
    let connect = global.connect(role)?;
    let store = global.open_store(Missing::Create).await?;
    let ports = catalogues.load(store.port(), agents, &global.secret_keys()?)?;
    Ok(Runtime::at_address(connect, store, ports, options))
}

pub(super) async fn run(global: &Global, command: WorkerCommand) -> Result<ExitCode, Failure> {
    let shutdown = Stop::listen()?.into_token();
    let deployment = command.deployment.zip(command.build_id);
    let options = RunWorkerOptions {
        task_queue: global.task_queue.clone(),
        max_cached_runs: command.max_cached_runs,
        grace: command.grace,
        deployment: deployment.map(|(name, build_id)| Deployment { name, build_id }),
    };
    let runtime = compose(global, "worker", &command.catalogues, options).await?;
    if let Some(client) = runtime.connect_until_up(&shutdown).await? {
        runtime.run_worker(client, &shutdown, || {}).await?;
    }
    runtime.close().await?;
    tracing::info!("worker stopped");
    Ok(ExitCode::SUCCESS)
}
