//! The API in this process: where it listens, what it offers and how much of it.

use std::{net::SocketAddr, time::Duration};

use clap::Args;
use temporalio_client::Client;
use tokio::net::TcpListener;
use windlass_api::{Handle, Limits, Options, Rates};
use windlass_core::time::Millis;
use windlass_ops::RunOps;

use crate::{
    cli::{Failure, Global, Service, WorkerArgs, values},
    embedded::EmbeddedError,
};

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
        Ok(TcpListener::bind(address).await.map_err(|source| EmbeddedError::Listen { address, source })?)
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
        let options = Options {
            ops,
            models: worker.catalogue()?,
            agents: ports.agents.iter().map(|agent| (**agent).clone()).collect(),
            builtins: ports.tools.names().filter_map(|name| ports.tools.get(name)).map(|tool| tool.spec()).collect(),
            rates,
            limits: Limits { local_tool_timeout: Millis(timeout), ..Limits::default() },
        };
        Ok(windlass_api::Service::new(listener, options)?)
    }
}
