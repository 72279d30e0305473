//! The command line: it parses arguments, calls `service`, `dev`, `bench` or a transport of `reach`, and prints.
//!
//! Data goes to stdout, everything else to stderr. `crate::render` turns data into text.

mod approvals;
mod args;
mod backup;
mod config;
mod dev;
mod doctor;
mod follow;
mod init;
mod keys;
pub mod logs;
mod mcp;
mod models;
mod person;
mod providers;
mod reach;
mod runs;
mod secrets;
mod serve;
mod settings;
mod start;
mod stop;
mod store;
mod tools;
pub(crate) mod values;
mod worker;

use std::{num::NonZero, process::ExitCode};

use clap::{Parser, Subcommand};
use windlass_core::time::Timestamp;

use self::stop::Stop;
pub use self::{
    args::Global,
    settings::{Loaded, NoCommand, parse},
};
use crate::{
    failure::{self as exit, Failure, failed, refused, usage},
    output::{Output, width_of},
};

/// Durable AI-agent runs on Temporal: start, follow, answer and operate them.
#[derive(Debug, Parser)]
#[command(
    name = "windlass",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "\
Try it:
  windlass dev         start everything, in one terminal
  windlass run demo    start a run, in another terminal
  windlass runs list

Exit codes:
  0 success   1 failure   2 invalid arguments or definition   3 the run was cancelled
  4 stopped following, the run continues   5 the run did not accept the request"
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "one per process; boxing would only make the definition noisier")]
pub enum Command {
    /// Start everything on this machine: engine, worker, API server and demo agents. Data survives a restart.
    Dev(dev::DevArgs),
    /// Run a worker: it polls a task queue and executes runs, until SIGINT or SIGTERM.
    Worker(worker::WorkerCommand),
    /// Run an API server: the agent-runs protocol over HTTP, until SIGINT or SIGTERM.
    Serve(serve::ServeCommand),
    /// Create a config, an agent and an example of the variables in a directory.
    Init(init::InitArgs),
    /// Show and check the config.
    Config {
        #[command(subcommand)]
        command: config::ConfigCommand,
    },
    /// List models, and test one with a call.
    Models {
        #[command(subcommand)]
        command: models::ModelsCommand,
    },
    /// List the tools of an agent, and call one of them.
    Tools {
        #[command(subcommand)]
        command: tools::ToolsCommand,
    },
    /// List and revoke grants, set the rules of runs and sessions, and explain decisions about calls.
    Approvals {
        #[command(subcommand)]
        command: approvals::ApprovalsCommand,
    },
    /// Create, list and revoke API keys.
    Keys {
        #[command(subcommand)]
        command: keys::KeysCommand,
    },
    /// Set, list and remove secrets: credentials that agents and tools refer to by name.
    Secrets {
        #[command(subcommand)]
        command: secrets::SecretsCommand,
    },
    /// Maintain the store: delete old runs, reclaim disk space, back up and restore.
    Store {
        #[command(subcommand)]
        command: store::StoreCommand,
    },
    /// Start a run and follow it.
    Run(start::RunArgs),
    /// List, follow, answer and control runs.
    Runs {
        #[command(subcommand)]
        command: runs::RunsCommand,
    },
    /// Serve the agents to programs that speak the Model Context Protocol.
    Mcp {
        #[command(subcommand)]
        command: mcp::McpCommand,
    },
    /// Measure latency, throughput and memory of runs, on the embedded engine or any Temporal server.
    Bench(crate::bench::BenchArgs),
    /// Check the Temporal server, the namespace, the store, the workers and the model providers.
    Doctor(doctor::DoctorArgs),
}

impl Command {
    /// Whether the command runs until it receives a signal.
    fn serves(&self) -> bool {
        matches!(self, Self::Dev(_) | Self::Worker(_) | Self::Serve(_))
    }
}

/// Executes a command. Not async, so that the SDK's futures are compiled here only.
pub fn run(cli: Cli) -> ExitCode {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
        runtime.worker_threads(async_threads());
    }
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("windlass: the async runtime cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(dispatch(cli));
    // A thread that reads the keyboard must not keep the process alive.
    runtime.shutdown_background();
    match ended {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("{failure}");
            failure.code()
        }
    }
}

fn now() -> Timestamp {
    windlass_store::system_clock()()
}

/// One less than there are processors: workflows and the database have threads of their own. With two processors, a second
/// thread here makes a step 10 % slower, because both are woken for the work of one.
fn async_threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.saturating_sub(1).max(1)
}

async fn dispatch(cli: Cli) -> Result<ExitCode, Failure> {
    let Cli { global, command } = cli;
    match command {
        Command::Dev(args) => Box::pin(dev::run(&global, args)).await,
        Command::Worker(command) => Box::pin(worker::run(&global, command)).await,
        Command::Serve(command) => Box::pin(serve::run(&global, command)).await,
        Command::Init(args) => init::run(&global, &args),
        Command::Config { command } => config::run(&global, &command),
        Command::Models { command } => Box::pin(models::run(&global, command)).await,
        Command::Tools { command } => Box::pin(tools::run(&global, command)).await,
        Command::Approvals { command } => Box::pin(approvals::run(&global, command)).await,
        Command::Keys { command } => Box::pin(keys::run(&global, command)).await,
        Command::Secrets { command } => Box::pin(secrets::run(&global, command)).await,
        Command::Store { command } => Box::pin(store::run(&global, command)).await,
        Command::Run(args) => Box::pin(start::run(&global, args)).await,
        Command::Runs { command } => Box::pin(runs::run(&global, command)).await,
        Command::Mcp { command } => Box::pin(mcp::run(&global, command)).await,
        Command::Bench(args) => Box::pin(bench(&global, args)).await,
        Command::Doctor(args) => Box::pin(doctor::run(&global, &args)).await,
    }
}

async fn bench(global: &Global, args: crate::bench::BenchArgs) -> Result<ExitCode, Failure> {
    let temporal = global.temporal.is_some().then(|| global.connect("bench")).transpose()?;
    let (out, interrupted) = (Output::new(global.json), Stop::listen()?.into_token());
    crate::bench::run(args, temporal, global.given_data_dir(), out, interrupted).await?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
