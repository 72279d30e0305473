//! `windlass dev`: everything on one machine with one command.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, ValueEnum, ValueHint};
use secrecy::SecretString;
use serde_json::json;
use windlass_engine::Limits;
use windlass_sqlite::Durability;

use super::{Failure, Global, Output, Stop, serve::ApiArgs, usage, worker::CatalogueArgs};
use crate::{
    dev::{self, Options, Ready, Temporal},
    service::Tuning,
};

const EXAMPLES: &str = "\
Examples:
  windlass dev
  windlass dev --agents ./agents --scripts scripts.json
  windlass dev --port 17233 --listen 127.0.0.1:18080 --data-dir /tmp/try
  windlass dev --temporal 127.0.0.1:7233     worker, API and store only, on a running Temporal server
  windlass dev --temporal-server             Temporal's own dev server, with its web UI, instead of the engine

Stop it with Ctrl-C and start it again at any time: runs continue where they were.";

/// The example agent on a real model.
const ASSISTANT: &str = "assistant";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DevArgs {
    /// Port of the engine for other processes: `windlass runs`, the `temporal` CLI, workers in any language
    #[arg(long, value_name = "PORT", default_value_t = 7233)]
    port: u16,

    /// What an acknowledged write survives: `full` also a power failure, `relaxed` a crash of the process
    #[arg(long, value_enum, default_value_t = Survives::Full, value_name = "LEVEL")]
    durability: Survives,

    /// Dynamic config of the engine, as of Temporal's dev server: KEY=JSON; may be repeated
    #[arg(long, value_name = "KEY=JSON", conflicts_with = "temporal_server")]
    dynamic_config_value: Vec<String>,

    /// Dynamic config of the engine, a file in the server's format; --dynamic-config-value is stronger
    #[arg(long, value_name = "FILE", conflicts_with = "temporal_server", value_hint = ValueHint::FilePath)]
    dynamic_config_file: Option<PathBuf>,

    /// Directory for archives of closed runs of namespaces that have archival enabled
    #[arg(long, value_name = "DIR", conflicts_with = "temporal_server", value_hint = ValueHint::DirPath)]
    archive_dir: Option<PathBuf>,

    /// Start Temporal's own dev server, with its web UI, instead of the embedded engine
    #[arg(long)]
    temporal_server: bool,

    /// Port of Temporal's web UI, with --temporal-server [default: the server's port + 1000]
    #[arg(long, value_name = "PORT", requires = "temporal_server")]
    ui_port: Option<u16>,

    /// Temporal CLI for --temporal-server [default: one that is installed, else it is installed into the data directory]
    #[arg(long, env = "WINDLASS_TEMPORAL_CLI", value_name = "FILE", value_hint = ValueHint::ExecutablePath)]
    temporal_cli: Option<PathBuf>,

    /// API key [default: one is created, kept in the data directory and printed]
    #[arg(long, env = "WINDLASS_API_KEY", value_name = "KEY", hide_env_values = true)]
    api_key: Option<SecretString>,

    #[command(flatten)]
    api: ApiArgs,

    #[command(flatten)]
    catalogues: CatalogueArgs,
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Survives {
    /// A crash of the process or the operating system, and a power failure.
    Full,
    /// A crash of the process. A crash of the operating system may lose the last writes; nothing is half written.
    Relaxed,
}

pub(super) async fn run(global: &Global, args: DevArgs) -> Result<ExitCode, Failure> {
    let shutdown = Stop::listen()?.into_token();
    // With JSON logs, the report is JSON, too.
    let out = Output::new(global.json || global.json_logs);
    let (agents, catalogues) = args.catalogues.load_agents(global)?;
    let first = agents.first().map_or_else(|| "demo".to_owned(), |agent| agent.id.to_string());
    let next = try_command(global, &first);
    let example =
        dev::assistant_model(global.config()).filter(|_| !agents.iter().any(|agent| agent.id.as_str() == ASSISTANT));
    let assistant = example.map(|model| (try_command(global, ASSISTANT), model));
    let options = Options {
        place: global.place("worker")?,
        temporal: temporal(global, &args)?,
        agents,
        catalogues,
        api: args.api.options(global.config(), None),
        api_key: args.api_key,
    };
    let workspace = global.workspace.to_string();
    Box::pin(dev::run(options, shutdown, move |ready| print(out, &ready, &workspace, &next, assistant.as_ref())))
        .await?;
    Ok(ExitCode::SUCCESS)
}

fn temporal(global: &Global, args: &DevArgs) -> Result<Temporal, Failure> {
    if global.temporal.is_some() {
        return Ok(Temporal::Address { connect: global.connect("worker")?, store: global.store()? });
    }
    if !args.temporal_server {
        let durability = match args.durability {
            Survives::Full => Durability::Full,
            Survives::Relaxed => Durability::Relaxed,
        };
        return Ok(Temporal::Engine { port: args.port, durability, tuning: tuning(args)? });
    }
    let ui_port = args.ui_port.or_else(|| args.port.checked_add(1000));
    let ui_port = ui_port.ok_or_else(|| usage("--port is too high for a UI port above it; set --ui-port"))?;
    let mut connect = global.connect("worker")?;
    connect.address = format!("127.0.0.1:{}", args.port);
    Ok(Temporal::DevServer {
        port: args.port,
        ui_port,
        cli: args.temporal_cli.clone(),
        connect,
        store: global.store()?,
    })
}

fn tuning(args: &DevArgs) -> Result<Tuning, Failure> {
    let mut limits = Limits::default();
    if let Some(path) = &args.dynamic_config_file {
        let text = std::fs::read_to_string(path).map_err(|error| usage(format!("{}: {error}", path.display())))?;
        limits.set_file(&text).map_err(|error| usage(format!("{}: {error}", path.display())))?;
    }
    for pair in &args.dynamic_config_value {
        limits.set_pair(pair).map_err(usage)?;
    }
    // Namespaces keep the path, so it must not depend on the working directory.
    let archive = args.archive_dir.as_ref().map(std::path::absolute).transpose();
    Ok(Tuning { limits, archive: archive.map_err(usage)? })
}

/// A command that starts a run of this agent. It finds this server by its data directory.
fn try_command(global: &Global, agent: &str) -> String {
    Global { temporal: None, ..global.clone() }.hint().command(&match agent {
        "demo" => "run demo".to_owned(),
        ASSISTANT => "run assistant 'What time is it?'".to_owned(),
        agent => format!("run {agent} 'Write a launch note'"),
    })
}

fn print(out: Output, ready: &Ready, workspace: &str, next: &str, assistant: Option<&(String, String)>) {
    let Ready { api, key, temporal, ui, data_dir } = ready;
    let mut document = json!({
        "api": api, "apiKey": key.reveal(), "workspace": workspace, "address": temporal, "ui": ui, "dataDir": data_dir,
        "try": next,
    });
    let mut text = format!("API  {api}\nKey  {}\nTry  {next}", key.reveal());
    if let Some((command, model)) = assistant {
        document["assistant"] = json!({"try": command, "model": model});
        text = format!("{text}\nOr   {command}  ({model})");
    }
    // The document is built from strings, so it can always be serialised.
    let _ = out.print(&document, || text);
}
