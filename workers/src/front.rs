//! The API in this process: where it listens, what it offers and how much of it.

use std::{net::SocketAddr, time::Duration};

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use temporalio_client::Client;
use tokio::net::TcpListener;
use windlass_api::{Handle, Limits, Options, Rates};
use windlass_core::time::Millis;
use windlass_ops::RunOps;
use windlass_store::system_clock;

use crate::{
    cli::{Failure, Global, Service, WorkerArgs, values},
    embedded::EmbeddedError,
};

/// What has a file descriptor beside connections: the store, the engine, Temporal.
const OTHER_FILES: u64 = 256;

#[derive(Debug, Clone, Args)]
pub(crate) struct FrontArgs {
    /// Where the API listens; port 0 takes any free one
    #[arg(long, env = "WINDLASS_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,

    /// How long a caller may take for one call of its own tools
    #[arg(long, value_name = "SPAN", default_value = "5m", value_parser = values::span)]
    local_tool_timeout: Duration,
}

impl FrontArgs {
    /// On this machine alone, at any port.
    pub(crate) fn loopback() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 0)), local_tool_timeout: Duration::from_secs(300) }
    }

    pub(crate) async fn bind(&self) -> Result<TcpListener, Failure> {
        let address = self.listen;
        Ok(TcpListener::bind(address).await.map_err(|reason| EmbeddedError::Listen { address, reason })?)
    }

    /// An API for the runs that this worker, or others like it, execute.
    pub(crate) fn service(
        &self,
        listener: TcpListener,
        client: Client,
        (global, worker): (&Global, &WorkerArgs),
        service: &Service,
        rates: Option<Rates>,
    ) -> Result<(windlass_api::Service, Handle), Failure> {
        let ports = service.ports();
        let ops = RunOps::new(client, ports.store.clone(), global.task_queue.clone(), global.workspace.clone());
        let timeout = u64::try_from(self.local_tool_timeout.as_millis()).unwrap_or(u64::MAX);
        let limits = Limits::default();
        let options = Options {
            ops,
            models: worker.catalogue()?,
            agents: ports.agents.iter().map(|agent| (**agent).clone()).collect(),
            builtins: ports.tools.names().filter_map(|name| ports.tools.get(name)).map(|tool| tool.spec()).collect(),
            rates,
            limits: Limits { local_tool_timeout: Millis(timeout), connections: room_for(limits.connections), ..limits },
            clock: system_clock(),
        };
        Ok(windlass_api::Service::new(listener, options)?)
    }
}

/// How many of so many connections the system lets this process have. The process raises its own limit of open files as
/// far as it may; connections beyond it wait instead of failing.
fn room_for(connections: usize) -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
    let Some(files) = getrlimit(Resource::Nofile).current else { return connections };
    let room = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
    if room < connections {
        tracing::info!(files, connections = room, "the hard limit of open files (`ulimit -Hn`) bounds the connections");
    }
    connections.min(room).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_takes_the_files_it_may_have_and_no_more_connections() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        assert_eq!(room_for(10), 10);
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
        let most = maximum.map_or(usize::MAX, |files| usize::try_from(files - OTHER_FILES).unwrap());
        assert_eq!(room_for(usize::MAX), most);
    }
}
