//! Logging, to stderr.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use super::{Cli, Command};
use crate::render::Paint;

/// For `serve` and `worker`: our own messages, and only warnings from the SDKs of Temporal and MCP.
const SERVING: &str = "info,temporalio_sdk=warn,temporalio_sdk_core=warn,temporalio_client=warn,rmcp=warn";
/// For `dev`: without a line per request.
const SERVING_ONE: &str =
    "info,windlass_api::access=warn,temporalio_sdk=warn,temporalio_sdk_core=warn,temporalio_client=warn,rmcp=warn";
/// For all other commands.
const ANSWERING: &str = "warn";

/// Installs the process's subscriber. The error says what is wrong with `--log`.
pub fn install(cli: &Cli) -> Result<(), String> {
    let default = match &cli.command {
        Command::Dev(_) => SERVING_ONE,
        command if command.serves() => SERVING,
        _ => ANSWERING,
    };
    let filter = cli.global.log.as_deref().unwrap_or(default);
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        format!("--log {filter:?} is not a filter ({error}); write for example `info` or `warn,windlass=debug`")
    })?;
    let colours = Paint::for_stream(io::stderr().is_terminal()).colours();
    let layer = fmt::layer().with_writer(io::stderr).with_ansi(colours).with_target(false);
    let registry = tracing_subscriber::registry().with(filter);
    let installed = if cli.global.json_logs {
        registry.with(layer.json().flatten_event(true).with_target(true)).try_init()
    } else {
        registry.with(layer).try_init()
    };
    installed.map_err(|error| format!("logging cannot be initialised: {error}"))
}
