//! `windlass serve`: an API server on a Temporal server and a store.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use clap::Args;
use windlass_api::Rates;

use super::{
    Failure, Global, Output, Stop, values,
    worker::{CatalogueArgs, compose},
};
use crate::{
    config::Config,
    service::{ApiOptions, RunWorkerOptions},
};

const EXAMPLES: &str = "\
Examples:
  windlass serve --temporal temporal.internal:7233 --listen 0.0.0.0:8080 --agents ./agents
  windlass keys create --name ci --workspace acme

The API server executes no runs: start a `windlass worker` on the same task queue and store. Any number of API servers can
run side by side. On SIGINT or SIGTERM, open streams are cut between two events, and clients reconnect to another server.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeCommand {
    #[command(flatten)]
    api: ApiArgs,

    /// Do not limit the request rate of API keys
    #[arg(long)]
    no_rate_limits: bool,

    #[command(flatten)]
    catalogues: CatalogueArgs,
}

/// How the API is served.
#[derive(Debug, Clone, Args)]
pub(crate) struct ApiArgs {
    /// Address of the API; port 0 takes a free port
    #[arg(long, env = "WINDLASS_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// How long a caller may take to return the result of a local tool call
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = values::span)]
    local_tool_timeout: Duration,
}

impl ApiArgs {
    pub(super) fn options(&self, config: &Config, rates: Option<Rates>) -> ApiOptions {
        ApiOptions {
            listen: self.listen,
            local_tool_timeout: self.local_tool_timeout,
            rates,
            // The config has checked it.
            public_url: config.public_url.as_ref().and_then(|url| url.parse().ok()),
            public_cards: config.public_cards,
        }
    }
}

pub(super) async fn run(global: &Global, command: ServeCommand) -> Result<ExitCode, Failure> {
    let shutdown = Stop::listen()?.into_token();
    let options = command.api.options(global.config(), (!command.no_rate_limits).then(Rates::default));
    let listener = options.bind().await?;
    let worker_options = RunWorkerOptions { task_queue: global.task_queue.clone(), ..RunWorkerOptions::default() };
    let runtime = compose(global, "api", &command.catalogues, worker_options).await?;
    if let Some(client) = runtime.connect_until_up(&shutdown).await? {
        let (api, handle) = runtime.api(&options, listener, client, global.workspace.clone())?;
        let address = format!("http://{}", handle.address);
        tracing::info!(%address, "API ready");
        Output::new(global.json || global.json_logs)
            .print(&serde_json::json!({"api": address}), || format!("API       {address}"))?;
        api.run(shutdown.clone()).await;
    }
    runtime.close().await?;
    Ok(ExitCode::SUCCESS)
}
