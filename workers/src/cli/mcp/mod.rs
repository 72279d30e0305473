//! `windlass mcp`: agents for programs that speak the Model Context Protocol.

mod bridge;
mod post;
mod stdio;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use clap::Subcommand;
use windlass_client::Address;

use self::{bridge::Bridge, post::Post};
use super::{
    Failure, Global, Stop, failed,
    tools::{InspectArgs, inspect},
    usage,
};
use crate::{
    dev::{Here, address_of},
    service::Missing,
};

#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Serve the agents as tools over stdin and stdout, for desktop clients that start this command.
    ///
    /// The tools are those of the API server: the one that --server names, the `windlass dev` of the data directory, or
    /// one inside this command.
    Serve,
    /// Show what an MCP server is and offers.
    Inspect(InspectArgs),
}

/// Where the API server is.
pub(super) enum Place {
    Named(Address),
    /// After a restart the server of a data directory may have another address.
    OfDataDir(PathBuf),
}

impl Place {
    fn address(&self) -> Option<Address> {
        match self {
            Self::Named(address) => Some(address.clone()),
            Self::OfDataDir(data_dir) => address_of(data_dir),
        }
    }
}

pub(super) async fn run(global: &Global, command: McpCommand) -> Result<ExitCode, Failure> {
    match command {
        McpCommand::Serve => Box::pin(serve(global)).await,
        McpCommand::Inspect(args) => Box::pin(inspect(global, args)).await,
    }
}

async fn serve(global: &Global) -> Result<ExitCode, Failure> {
    let stop = Stop::listen()?.into_token();
    let (place, here) = find(global).await?;
    let client = crate::service::providers::client()
        .map_err(|error| failed(format!("the HTTP client cannot start: {error}")))?;
    let (lines, out) = (stdio::lines(), stdio::writer());
    let bridge = Bridge::new(Arc::new(Post { client, place }), out);
    stop.run_until_cancelled(bridge.run(lines)).await;
    if let Some(here) = here {
        here.stop().await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The API server, and the one in this process if none was found.
async fn find(global: &Global) -> Result<(Place, Option<Here>), Failure> {
    if let Some(url) = &global.server {
        return Ok((Place::Named(Address { base_url: url.clone(), api_key: global.server_key()? }), None));
    }
    if global.temporal.is_some() || global.postgres()?.is_some() {
        return Err(usage(
            "this command needs an API server: start one with `windlass serve`, and name it with --server",
        ));
    }
    if super::reach::serves(global).await? {
        return Ok((Place::OfDataDir(global.data_dir.clone()), None));
    }
    global.store()?.check(Missing::Create)?;
    let here = Box::pin(Here::start(&global.place("worker")?, global.config(), None)).await?;
    Ok((Place::Named(Address { base_url: here.url.clone(), api_key: here.key.clone() }), Some(here)))
}
