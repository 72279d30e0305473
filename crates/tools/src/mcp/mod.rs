//! Tools of MCP servers, over stdio and Streamable HTTP.
//!
//! Two revisions of the protocol are spoken. A server is asked `server/discover` first: one that answers is spoken to by
//! 2026-07-28 (stateless); any other by the `initialize` handshake of 2025-11-25, or an older one that it offers.
//!
//! **Connections** are shared by all calls of a worker: one process or connection per key, started when it is needed,
//! closed after ten minutes without use. One that ended is started again by the next use; the calls that were in flight
//! fail and are never repeated here. A call that runs out of time or is cancelled sends a cancellation to the server and
//! leaves the connection and the other calls on it alone.
//!
//! **Questions to a person** (elicitation) can take days, so no call waits for the answer; see [`input`]. By 2026-07-28
//! the server itself gives the call back with its questions. By 2025-11-25 it sends a question while the call is in
//! flight: the call is cancelled, and is made again from the start when the answer is there. That request does not say
//! which call asks. Over HTTP the response stream that it arrives on does. Otherwise the question belongs to the only call
//! in flight; if there are several, the server gets an error that says so, because no person was asked.

mod call;
mod connection;
mod failure;
mod http;
mod in_flight;
mod input;
mod inspect;
mod listing;
mod pool;
mod post;
mod process;
mod result;
mod specs;
mod task;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use reqwest::{Client, Url, header::HeaderMap};
use secrecy::SecretString;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::{ResolvedToolset, ToolSpec, Toolset},
    canonical::CanonicalJson,
};

pub use self::inspect::McpInspection;
use self::pool::Pool;
use crate::{CallContext, ToolFailure, ToolReply};

/// How a server is reached. The caller has resolved the secrets and put the egress rules into the client.
#[derive(Clone)]
pub enum McpEndpoint {
    /// A process on the worker's machine. Of the worker's environment it gets `PATH`, `HOME`, the locale and the like, and
    /// no other variables.
    Command {
        program: String,
        args: Vec<String>,
        env: BTreeMap<String, SecretString>,
        cwd: Option<PathBuf>,
    },
    Http {
        url: Url,
        client: Client,
        headers: HeaderMap,
    },
}

/// Arguments, addresses and headers may contain secrets.
impl fmt::Debug for McpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { program, .. } => {
                f.debug_struct("Command").field("program", program).finish_non_exhaustive()
            }
            Self::Http { url, .. } => f.debug_struct("Http").field("host", &url.host_str()).finish_non_exhaustive(),
        }
    }
}

/// The connections of a worker to MCP servers. A key stands for one server with one set of credentials: the caller gives
/// different keys for different commands, addresses and credentials.
#[derive(Debug, Clone, Default)]
pub struct McpServers(Arc<Pool>);

impl McpServers {
    /// The tools of the toolset's server as tools of an agent, in the order of their names at the server.
    pub async fn tools(
        &self,
        key: &str,
        endpoint: McpEndpoint,
        toolset: &Toolset,
        timeout: Duration,
    ) -> Result<(Vec<ToolSpec>, ResolvedToolset), ToolFailure> {
        let list = async {
            let connection = self.0.connection(key, endpoint).await?;
            let tools = connection.tools().await?;
            Ok((specs::of_tools(&tools, toolset), connection.resolved()))
        };
        within(Some(Instant::now() + timeout), None, list).await
    }

    /// Calls a tool by its name at the server. The deadline includes the start of the server.
    pub async fn call(
        &self,
        key: &str,
        endpoint: McpEndpoint,
        tool: &str,
        context: &CallContext,
        args: &CanonicalJson,
    ) -> Result<ToolReply, ToolFailure> {
        let call = async {
            let connection = self.0.connection(key, endpoint).await?;
            call::call(&connection, tool, context, args).await
        };
        within(context.deadline.map(Instant::from_std), Some(&context.cancel), call).await
    }

    /// What the server says about itself and what it offers.
    pub async fn inspect(
        &self,
        key: &str,
        endpoint: McpEndpoint,
        timeout: Duration,
    ) -> Result<McpInspection, ToolFailure> {
        let inspect = async {
            let connection = self.0.connection(key, endpoint).await?;
            inspect::inspect(&connection).await
        };
        within(Some(Instant::now() + timeout), None, inspect).await
    }

    /// Closes all connections and ends the child processes. Later uses fail.
    pub async fn shutdown(&self) {
        self.0.shutdown().await;
    }
}

/// Gives up at the deadline or when the call is cancelled. What is dropped then tells the server.
async fn within<T>(
    deadline: Option<Instant>,
    cancel: Option<&CancellationToken>,
    work: impl Future<Output = Result<T, ToolFailure>>,
) -> Result<T, ToolFailure> {
    let expired = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    let cancelled = async {
        match cancel {
            Some(cancel) => cancel.cancelled().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = cancelled => Err(failure::cancelled()),
        outcome = work => outcome,
        () = expired => Err(failure::timed_out()),
    }
}
