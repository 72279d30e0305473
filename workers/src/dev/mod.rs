//! `windlass dev`: everything on one machine with one command.
//!
//! Engine, store, worker and API run in this process, on one database in the data directory, so whatever is stopped, killed
//! or restarted, runs go on where they were. Instead of the engine it can use a Temporal server that is there already,
//! or supervise the Temporal CLI's dev server.

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
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum, ValueHint};
use secrecy::SecretString;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_api::auth::ApiKey;
use windlass_core::agent::AgentDefinition;
use windlass_sqlite::Durability;

use self::{
    address::Announced,
    home::Home,
    server::{Server, ServerOptions},
};
pub(crate) use self::{address::address_of, here::Here};
use crate::{
    cli::{Failure, Global, Output, Service, Stop, WorkerArgs, load_agents, usage},
    embedded::{EmbeddedOptions, RunningEmbedded},
    front::FrontArgs,
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
  windlass dev --port 17233 --listen 127.0.0.1:18080 --data-dir /tmp/try
  windlass dev --temporal 127.0.0.1:7233     only worker and store, against a server that runs already
  windlass dev --temporal-server             Temporal's own dev server, with its web UI, instead of the engine

Stop it with Ctrl-C and start it again whenever you like: runs go on where they were.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DevArgs {
    /// Port on which other processes reach the engine: `windlass runs`, the `temporal` CLI, workers in any language
    #[arg(long, value_name = "PORT", default_value_t = 7233)]
    port: u16,

    /// What an acknowledged write survives: `full` also a power failure, `relaxed` the end of the process
    #[arg(long, value_enum, default_value_t = Survives::Full, value_name = "LEVEL")]
    durability: Survives,

    /// Start Temporal's own dev server, with its web UI, instead of the embedded engine
    #[arg(long)]
    temporal_server: bool,

    /// Port of Temporal's web UI, with --temporal-server [default: the server's port + 1000]
    #[arg(long, value_name = "PORT", requires = "temporal_server")]
    ui_port: Option<u16>,

    /// Temporal CLI for --temporal-server; without it one is looked for and, if there is none, installed into the data
    /// directory
    #[arg(long, env = "WINDLASS_TEMPORAL_CLI", value_name = "FILE", value_hint = ValueHint::ExecutablePath)]
    temporal_cli: Option<PathBuf>,

    /// The API's key; without it one is made, kept in the data directory and printed
    #[arg(long, env = "WINDLASS_API_KEY", value_name = "KEY", hide_env_values = true)]
    api_key: Option<SecretString>,

    #[command(flatten)]
    front: FrontArgs,

    #[command(flatten)]
    worker: WorkerArgs,
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Survives {
    /// The end of the process, of the system and of the power supply.
    Full,
    /// The end of the process; the last moments may be lost with the system. Nothing is ever torn.
    Relaxed,
}

/// Where the history of runs lives.
enum History {
    Engine(RunningEmbedded),
    Server(Server),
    /// Somebody else looks after it.
    Elsewhere,
}

pub(crate) async fn run(global: &Global, mut args: DevArgs) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    let out = Output::new(global.json || global.json_logs);
    let shutdown = Stop::listen()?.into_token();
    let agents = agents(&args.worker)?;

    let mut global = global.clone();
    let home = Home::lock(&global.data_dir)?;
    args.worker.kept_scripts = scripts::kept(home.directory());
    let listener = args.front.bind().await?;
    let history = open_history(&mut global, &args, &home, out).await?;
    tracing::info!(ms = millis(began), "history is open");
    let worked = work(&global, &args, agents, (&home, listener, began), &history, &shutdown).await;
    // The worker goes first: it reports what it has done.
    match history {
        History::Engine(engine) => engine.stop().await?,
        History::Server(server) => server.stop().await,
        History::Elsewhere => {}
    }
    worked?;
    Ok(ExitCode::SUCCESS)
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

async fn open_history(global: &mut Global, args: &DevArgs, home: &Home, out: Output) -> Result<History, Failure> {
    if let Some(address) = &global.temporal {
        tracing::info!("using the Temporal server at {address}; no engine is started");
        return Ok(History::Elsewhere);
    }
    global.temporal = Some(format!("127.0.0.1:{}", args.port));
    if !args.temporal_server {
        let engine = RunningEmbedded::start(engine_options(global, args, home)).await?;
        global.temporal = engine.handle.address().map(|address| address.to_string());
        return Ok(History::Engine(engine));
    }
    let ui_port = args.ui_port.or_else(|| args.port.checked_add(1000));
    let ui_port = ui_port.ok_or_else(|| usage("--port is too high for a UI port above it; give --ui-port"))?;
    let options = ServerOptions { port: args.port, ui_port, namespace: global.namespace.clone() };
    let binary = binary::find_or_install(args.temporal_cli.as_deref(), home.directory(), out).await?;
    Ok(History::Server(Server::start(binary, home, options).await?))
}

fn engine_options(global: &Global, args: &DevArgs, home: &Home) -> EmbeddedOptions {
    EmbeddedOptions {
        data_dir: home.directory().to_owned(),
        durability: match args.durability {
            Survives::Full => Durability::Full,
            Survives::Relaxed => Durability::Relaxed,
        },
        namespace: global.namespace.clone(),
        listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, args.port))),
    }
}

/// The agents that were given, and the examples.
fn agents(args: &WorkerArgs) -> Result<Vec<AgentDefinition>, Failure> {
    let mut agents = load_agents(&args.agents)?;
    let given: Vec<_> = agents.iter().map(|agent| agent.id.clone()).collect();
    agents.extend(examples::agents()?.into_iter().filter(|agent| !given.contains(&agent.id)));
    Ok(agents)
}

/// Keeps a worker and the API at work until a stop is asked for.
async fn work(
    global: &Global,
    args: &DevArgs,
    agents: Vec<AgentDefinition>,
    (home, listener, began): (&Home, TcpListener, Instant),
    history: &History,
    shutdown: &CancellationToken,
) -> Result<(), Failure> {
    let options =
        RunWorkerOptions { task_queue: global.task_queue.clone(), grace: GRACE, ..RunWorkerOptions::default() };
    let first = agents.first().map_or_else(|| "FILE".to_owned(), |agent| agent.id.to_string());
    let service = match history {
        History::Engine(engine) => Service::beside(engine.handle.clone(), global, &args.worker, agents, options)?,
        History::Server(_) | History::Elsewhere => {
            Service::prepare(global, "worker", &args.worker, agents, options).await?
        }
    };
    let key = key::ensure(&*service.ports().store, &global.workspace, args.api_key.as_ref(), home.directory()).await?;
    let supervised = async {
        if let History::Server(server) = history {
            tracing::info!("the Temporal server is starting");
            shutdown.run_until_cancelled(server.listening()).await;
        }
        let Some(mut client) = service.reach(shutdown).await? else { return Ok::<(), Failure>(()) };
        let (api, handle) = args.front.service(listener, client.clone(), (global, &args.worker), &service, None)?;
        let url = format!("http://{}", handle.address);
        let _announced = Announced::write(home.directory(), &url, &key)?;
        let banner = Arc::new(Banner::new(global, home, (history, url, &key), &first));
        let api = api.run(shutdown.clone());
        let worker = async {
            loop {
                let shown = Arc::clone(&banner);
                let ready = move || {
                    tracing::info!(ms = millis(began), "ready since the start");
                    shown.print_once();
                };
                match service.serve(client, shutdown, ready).await {
                    Ok(()) => return Ok::<(), Failure>(()),
                    Err(failure) => tracing::warn!("{failure}"),
                }
                tokio::time::sleep(WORKER_PAUSE).await;
                match service.reach(shutdown).await? {
                    Some(reached) => client = reached,
                    None => return Ok(()),
                }
            }
        };
        let ((), worked) = tokio::join!(api, worker);
        worked
    };
    let broken = async {
        match history {
            History::Server(server) => server.broken().await,
            History::Engine(_) | History::Elsewhere => std::future::pending().await,
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
    api: String,
    key: ApiKey,
    workspace: String,
    address: String,
    ui: Option<String>,
    data_dir: PathBuf,
    next: String,
    out: Output,
    printed: AtomicBool,
}

impl Banner {
    fn new(global: &Global, home: &Home, (history, api, key): (&History, String, &ApiKey), agent: &str) -> Self {
        let ui_port = match history {
            History::Server(server) => Some(server.ui_port()),
            History::Engine(_) | History::Elsewhere => None,
        };
        Self {
            api,
            key: key.clone(),
            workspace: global.workspace.to_string(),
            address: global.address().to_owned(),
            ui: ui_port.map(|port| format!("http://127.0.0.1:{port}")),
            data_dir: home.directory().to_owned(),
            // The command finds this server by its data directory.
            next: Global { temporal: None, ..global.clone() }.hint().command(&match agent {
                "demo" => "run demo".to_owned(),
                agent => format!("run {agent} 'Write a launch note'"),
            }),
            // Whoever wants logs as JSON wants this as JSON, too.
            out: Output::new(global.json || global.json_logs),
            printed: AtomicBool::new(false),
        }
    }

    fn print_once(&self) {
        if self.printed.swap(true, Ordering::Relaxed) {
            return;
        }
        let Self { api, key, workspace, address, ui, data_dir, next, out, .. } = self;
        let document = json!({
            "api": api, "apiKey": key.reveal(), "workspace": workspace, "address": address, "ui": ui, "dataDir": data_dir,
            "try": next,
        });
        tracing::info!(temporal = address, ui, data = %data_dir.display(), workspace, "serving");
        let text = || format!("API  {api}\nKey  {}\nTry  {next}", key.reveal());
        // The document is built from strings; it always serialises.
        let _ = out.print(&document, text);
    }
}
