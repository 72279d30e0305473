//! `windlass dev`: everything on one machine with one command.
//!
//! It supervises the Temporal CLI's dev server on a database file and runs a worker in this process. Both keep their data
//! in the data directory, so whatever is stopped, killed or restarted, runs go on where they were.

mod binary;
mod examples;
mod home;
mod process;
mod server;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use clap::{Args, ValueHint};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_core::agent::AgentDefinition;

use self::{
    home::Home,
    server::{Server, ServerOptions},
};
use crate::{
    cli::{Failure, Global, Output, Service, Stop, WorkerArgs, load_agents, usage},
    worker::RunWorkerOptions,
};

/// A developer who presses Ctrl-C does not want to wait long.
const GRACE: Duration = Duration::from_secs(3);
/// Before a worker that stopped by itself is started again.
const WORKER_PAUSE: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  windlass dev
  windlass dev --agents ./agents --scripts scripts.json
  windlass dev --port 17233 --data-dir /tmp/try
  windlass dev --temporal 127.0.0.1:7233     only worker and store, against a server that runs already

Stop it with Ctrl-C and start it again whenever you like: runs go on where they were.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DevArgs {
    /// Port of the Temporal server
    #[arg(long, value_name = "PORT", default_value_t = 7233)]
    port: u16,

    /// Port of Temporal's web UI [default: the server's port + 1000]
    #[arg(long, value_name = "PORT")]
    ui_port: Option<u16>,

    /// Temporal CLI to use; without it one is looked for and, if there is none, installed into the data directory
    #[arg(long, env = "WINDLASS_TEMPORAL_CLI", value_name = "FILE", value_hint = ValueHint::ExecutablePath)]
    temporal_cli: Option<PathBuf>,

    #[command(flatten)]
    worker: WorkerArgs,
}

pub(crate) async fn run(global: &Global, args: DevArgs) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    let shutdown = Stop::listen()?.into_token();
    let agents = agents(&args.worker)?;

    let mut global = global.clone();
    let home = Home::lock(&global.data_dir)?;
    let server = match &global.temporal {
        Some(address) => {
            tracing::info!("using the Temporal server at {address}; none is started");
            None
        }
        None => {
            let ui_port = args.ui_port.or_else(|| args.port.checked_add(1000));
            let ui_port = ui_port.ok_or_else(|| usage("--port is too high for a UI port above it; give --ui-port"))?;
            let options = ServerOptions { port: args.port, ui_port, namespace: global.namespace.clone() };
            global.temporal = Some(format!("127.0.0.1:{}", args.port));
            let binary = binary::find_or_install(args.temporal_cli.as_deref(), home.directory(), out).await?;
            Some(Server::start(binary, &home, options).await?)
        }
    };
    let first = agents.first().map_or("FILE", |agent| agent.id.as_str());
    let banner = Banner::new(&global, &home, server.as_ref().map(Server::ui_port), first, out);
    let worked = work(&global, &args.worker, agents, banner, server.as_ref(), &shutdown).await;
    // The worker goes first: it reports what it has done to the server.
    if let Some(server) = server {
        server.stop().await;
    }
    worked?;
    Ok(ExitCode::SUCCESS)
}

/// The agents that were given, and the examples. Those play the scripts that are built in.
fn agents(args: &WorkerArgs) -> Result<Vec<AgentDefinition>, Failure> {
    let mut agents = load_agents(&args.agents)?;
    if args.scripts.is_none() {
        let given: Vec<_> = agents.iter().map(|agent| agent.id.clone()).collect();
        agents.extend(examples::agents()?.into_iter().filter(|agent| !given.contains(&agent.id)));
    }
    Ok(agents)
}

/// Keeps a worker at work until a stop is asked for.
async fn work(
    global: &Global,
    args: &WorkerArgs,
    agents: Vec<AgentDefinition>,
    banner: Banner,
    server: Option<&Server>,
    shutdown: &CancellationToken,
) -> Result<(), Failure> {
    let options =
        RunWorkerOptions { task_queue: global.task_queue.clone(), grace: GRACE, ..RunWorkerOptions::default() };
    let service = Service::prepare(global, args, agents, options)?;
    let banner = Arc::new(banner);
    let supervised = async {
        if let Some(server) = server {
            tracing::info!("the Temporal server is starting");
            shutdown.run_until_cancelled(server.listening()).await;
        }
        while let Some(client) = service.reach(shutdown).await? {
            let shown = Arc::clone(&banner);
            match service.serve(client, shutdown, move || shown.print_once()).await {
                Ok(()) => break,
                Err(failure) => tracing::warn!("{failure}"),
            }
            tokio::time::sleep(WORKER_PAUSE).await;
        }
        Ok::<(), Failure>(())
    };
    let broken = async {
        match server {
            Some(server) => server.broken().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        supervised = supervised => supervised?,
        broken = broken => return Err(broken),
    }
    service.close().await
}

/// What a newcomer needs to know, once everything is up.
struct Banner {
    address: String,
    ui: Option<String>,
    data_dir: PathBuf,
    next: String,
    out: Output,
    printed: AtomicBool,
}

impl Banner {
    fn new(global: &Global, home: &Home, ui_port: Option<u16>, agent: &str, out: Output) -> Self {
        Self {
            address: global.address().to_owned(),
            ui: ui_port.map(|port| format!("http://127.0.0.1:{port}")),
            data_dir: home.directory().to_owned(),
            next: global.hint().command(&format!("run --agent {agent} 'Write a launch note'")),
            out,
            printed: AtomicBool::new(false),
        }
    }

    fn print_once(&self) {
        if self.printed.swap(true, Ordering::Relaxed) {
            return;
        }
        let Self { address, ui, data_dir, next, out, .. } = self;
        let document = json!({"address": address, "ui": ui, "dataDir": data_dir, "try": next});
        let text = || {
            let ui = ui.as_ref().map(|ui| format!(", UI at {ui}")).unwrap_or_default();
            format!("Temporal  {address}{ui}\nData      {}\nTry       {next}", data_dir.display())
        };
        // The document is built from strings; it always serialises.
        let _ = out.print(&document, text);
    }
}
