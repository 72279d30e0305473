//! Logging, to stderr.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use super::{Cli, Command};
use crate::render::Paint;

/// For `serve` and `worker`: our own messages, and only warnings from the SDK of Temporal.
const SERVING: &str = "info,temporalio_sdk=warn,temporalio_sdk_core=warn,temporalio_client=warn";
/// For `dev`: without a line per request.
const SERVING_ONE: &str =
    "info,windlass_api::access=warn,temporalio_sdk=warn,temporalio_sdk_core=warn,temporalio_client=warn";
/// For all other commands.
const ANSWERING: &str = "warn";

/// The filter that `--log` means. The MCP library logs what servers send at all levels, and a server may repeat its
/// credentials. So it logs only if the filter names it; what matters of it is logged by `windlass_tools`.
pub fn filter(given: &str) -> String {
    if given.contains("rmcp") { given.to_owned() } else { format!("{given},rmcp=off") }
}

/// Installs the process's subscriber. The error says what is wrong with `--log`.
pub fn install(cli: &Cli) -> Result<(), String> {
    let default = match &cli.command {
        Command::Dev(_) => SERVING_ONE,
        command if command.serves() => SERVING,
        _ => ANSWERING,
    };
    let given = cli.global.log.as_deref().unwrap_or(default);
    let filter = EnvFilter::try_new(filter(given)).map_err(|error| {
        format!("--log {given:?} is not a filter ({error}); write for example `info` or `warn,windlass=debug`")
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
