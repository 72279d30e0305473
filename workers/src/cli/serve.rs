//! `windlass serve`: the API alone, against a Temporal server and the store.

use std::process::ExitCode;

use clap::Args;
use windlass_api::Rates;

use super::{Failure, Global, Output, Service, Stop, WorkerArgs, agents};
use crate::{front::FrontArgs, worker::RunWorkerOptions};

const EXAMPLES: &str = "\
Examples:
  windlass serve --temporal temporal.internal:7233 --listen 0.0.0.0:8080 --agents ./agents
  windlass keys create --name ci --workspace acme

It executes nothing: runs need a `windlass worker` on the same task queue and store. Any number may serve side by side.
On SIGINT or SIGTERM live streams are dropped between two events, so that their readers go on elsewhere.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeCommand {
    #[command(flatten)]
    front: FrontArgs,

    /// Do not limit how often a key may send requests
    #[arg(long)]
    no_rate_limits: bool,

    #[command(flatten)]
    worker: WorkerArgs,
}

pub(super) async fn run(global: &Global, command: ServeCommand) -> Result<ExitCode, Failure> {
    let shutdown = Stop::listen()?.into_token();
    let agents = agents::load(&command.worker.agents)?;
    let listener = command.front.bind().await?;
    let options = RunWorkerOptions { task_queue: global.task_queue.clone(), ..RunWorkerOptions::default() };
    let service = Service::prepare(global, "api", &command.worker, agents, options).await?;
    if let Some(client) = service.reach(&shutdown).await? {
        let rates = (!command.no_rate_limits).then(Rates::default);
        let (api, handle) = command.front.service(listener, client, (global, &command.worker), &service, rates)?;
        let address = format!("http://{}", handle.address);
        tracing::info!(%address, "API ready");
        Output::new(global.json || global.json_logs)
            .print(&serde_json::json!({"api": address}), || format!("API       {address}"))?;
        api.run(shutdown.clone()).await;
    }
    service.close().await?;
    Ok(ExitCode::SUCCESS)
}
