//! The API server of this process: its address, its catalogues and its limits.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::Uri;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use windlass_api::{Limits, Options, Rates};
use windlass_core::time::Millis;
use windlass_ops::RunOps;
use windlass_store::system_clock;

use super::{EmbeddedError, Ports};
use crate::failure::Failure;

/// File descriptors that are reserved for the store, the engine and the connection to Temporal.
const OTHER_FILES: u64 = 256;

/// How the API is served.
#[derive(Debug, Clone)]
pub struct ApiOptions {
    pub listen: SocketAddr,
    /// How long a caller may take to return the result of one call of a local tool.
    pub local_tool_timeout: Duration,
    /// Without rates, requests are not limited.
    pub rates: Option<Rates>,
    /// The address that clients use; cards of agents name it. Without it, the host of the request.
    pub public_url: Option<Uri>,
    /// Whether cards of agents can be read without a key.
    pub public_cards: bool,
}

impl ApiOptions {
    /// On a free port of the loopback interface.
    pub fn loopback() -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let local_tool_timeout = Duration::from_secs(300);
        Self { listen, local_tool_timeout, rates: None, public_url: None, public_cards: false }
    }

    pub async fn bind(&self) -> Result<TcpListener, Failure> {
        let address = self.listen;
        Ok(TcpListener::bind(address).await.map_err(|reason| EmbeddedError::Listen { address, reason })?)
    }

    /// The options of an API server over these catalogues.
    pub fn on(&self, ops: RunOps, ports: &Ports) -> Options {
        let timeout = u64::try_from(self.local_tool_timeout.as_millis()).unwrap_or(u64::MAX);
        let limits = Limits::default();
        let egress = ports.tools.egress().clone();
        Options {
            ops,
            models: ports.models.listing().clone(),
            agents: ports.agents.iter().map(|agent| (**agent).clone()).collect(),
            approvals: ports.agents.approvals().to_vec(),
            builtins: ports.tools.specs().collect(),
            vault: ports.vault.clone(),
            rates: self.rates,
            limits: Limits {
                local_tool_timeout: Millis(timeout),
                connections: connections_within_file_limit(limits.connections),
                ..limits
            },
            clock: system_clock(),
            check_receiver: Arc::new(move |url| egress.check_address(url)),
            public_url: self.public_url.clone(),
            public_cards: self.public_cards,
        }
    }
}

/// Raises the process's soft limit of open files to the hard limit, and returns how many of the wanted connections fit
/// into it. Further connections wait in the backlog instead of failing.
fn connections_within_file_limit(wanted: usize) -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
    let Some(files) = getrlimit(Resource::Nofile).current else { return wanted };
    let room = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
    if room < wanted {
        tracing::info!(files, connections = room, "the hard limit of open files (`ulimit -Hn`) limits the connections");
    }
    wanted.min(room).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_limited_by_the_hard_limit_of_open_files() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        assert_eq!(connections_within_file_limit(10), 10);
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
        let most = maximum.map_or(usize::MAX, |files| usize::try_from(files - OTHER_FILES).unwrap());
        assert_eq!(connections_within_file_limit(usize::MAX), most);
    }
}
