//! A worker process for tests that kill it. Its tools and its model write to a ledger file what they do and when, so
//! that a test can tell afterwards what happened once, twice or not at all.
//!
//! Arguments: address, task queue, data directory, scripts file, ledger file, how many runs to cache. A `windlass.toml` in
//! the data directory adds its providers. With a URL in `WINDLASS_IT_POSTGRES` the store is there and not in the data
//! directory.

#![allow(clippy::expect_used, reason = "part of the tests: what goes wrong here must fail them")]

mod ledger;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use windlass::{
    config::Config,
    service::{CatalogueOptions, Deployment, ModelCatalogue, Ports, RunWorkerOptions, run_blocking},
    temporal::Connect,
};
use windlass_activities::AgentCatalog;
use windlass_models::script::{SCHEME, ScriptModel};
use windlass_store::{
    Store,
    postgres::{self, PostgresStore},
    sqlite::{Options, SqliteStore},
};
use windlass_tools::{ToolRegistry, Toolbox};

use self::ledger::{Ledger, LedgerTool, LoggedModel};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, task_queue, data_dir, scripts, ledger, cached] = &args[..] else {
        anyhow::bail!("six arguments are expected");
    };
    let ledger = Arc::new(Ledger::open(ledger)?);
    let scripts = ScriptModel::from_file(&PathBuf::from(scripts)).context("scripts")?;
    let names: Vec<String> = scripts.names().map(str::to_owned).collect();
    let model = LoggedModel { ledger: ledger.clone(), scripts };
    let store = store(Path::new(data_dir))?;
    let ports = Ports {
        store,
        vault: None,
        models: configured(Path::new(data_dir))?.with(SCHEME, Arc::new(model), names, None),
        tools: Toolbox::of(
            ToolRegistry::new()
                .with(LedgerTool { name: "once", idempotent: false, ledger: ledger.clone() })
                .with(LedgerTool { name: "again", idempotent: true, ledger }),
        )?,
        agents: AgentCatalog::default(),
    };
    let options = RunWorkerOptions {
        task_queue: task_queue.clone(),
        max_cached_runs: cached.parse()?,
        grace: Duration::from_secs(2),
        deployment: std::env::var("IT_BUILD_ID").ok().map(|build_id| Deployment { name: task_queue.clone(), build_id }),
    };
    let connection = Connect {
        address: address.clone(),
        namespace: "default".to_owned(),
        tls: None,
        api_key: None,
        identity: format!("it-worker-{}", std::process::id()),
    };
    run_blocking(&connection, ports, &options, CancellationToken::new())?;
    Ok(())
}

fn store(data_dir: &Path) -> anyhow::Result<Arc<dyn Store>> {
    let Ok(url) = std::env::var("WINDLASS_IT_POSTGRES") else {
        return Ok(Arc::new(SqliteStore::open(Options::new(data_dir.join("windlass.db")))?));
    };
    // The store listens for as long as the process lives.
    let runtime = Box::leak(Box::new(tokio::runtime::Runtime::new()?));
    Ok(Arc::new(runtime.block_on(PostgresStore::connect(postgres::Options::new(url)))?))
}

/// The models of the providers in the data directory's `windlass.toml`, if there is one.
fn configured(data_dir: &Path) -> anyhow::Result<ModelCatalogue> {
    let path = data_dir.join("windlass.toml");
    if !path.exists() {
        return Ok(ModelCatalogue::new());
    }
    let config = Config::parse(Some((&path, &std::fs::read_to_string(&path)?)))?;
    let options = CatalogueOptions { config: Arc::new(config), ..CatalogueOptions::default() };
    options.models().map_err(|failure| anyhow::anyhow!("{failure}"))
}
