//! One connection to a server.

use std::{
    sync::{Arc, Mutex as StdMutex, PoisonError},
    time::Duration,
};

use rmcp::{
    RoleClient,
    model::{ProtocolVersion, ServerPeerInfo},
    service::{
        ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, Peer, RunningService,
        serve_client_with_lifecycle_and_ct,
    },
    transport::{
        StreamableHttpClientTransport, common::client_side_sse::ExponentialBackoff,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use windlass_core::agent::ResolvedToolset;

use super::{
    McpEndpoint, failure,
    in_flight::InFlight,
    listing::Listed,
    process::{self, Process},
};
use crate::ToolFailure;

/// POSTs in flight at once. A server that answers without a stream holds one for each call.
const POSTS: usize = 256;
/// How often a broken response stream is taken up again where it broke off. That repeats no call.
const STREAM_RESUMPTIONS: usize = 3;
/// How long the output of a process that has exited is still read.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    pub(super) info: Arc<ServerPeerInfo>,
    pub(super) in_flight: Arc<InFlight>,
    /// The server's tools, while they are fresh. Locked while they are listed.
    pub(super) listed: Mutex<Option<Listed>>,
    /// Cancelled when the connection has ended, and to end it.
    close: CancellationToken,
    last_used: StdMutex<Instant>,
    _close_on_drop: DropGuard,
}

type Running = RunningService<RoleClient, Arc<InFlight>>;

impl Connection {
    pub(super) async fn open(
        endpoint: McpEndpoint,
        close: CancellationToken,
        tasks: &TaskTracker,
    ) -> Result<Self, ToolFailure> {
        let in_flight = Arc::new(InFlight::default());
        let (running, process) = match endpoint {
            McpEndpoint::Command { .. } => open_process(&endpoint, &in_flight, &close, tasks).await?,
            McpEndpoint::Http { url, client, headers } => {
                let mut backoff = ExponentialBackoff::default();
                backoff.max_times = Some(STREAM_RESUMPTIONS);
                let mut config =
                    StreamableHttpClientTransportConfig::with_uri(String::from(url)).max_concurrent_requests(POSTS);
                config.retry_config = Arc::new(backoff);
                config.custom_headers = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                let transport = StreamableHttpClientTransport::with_client(client, config);
                let serve =
                    serve_client_with_lifecycle_and_ct(Arc::clone(&in_flight), transport, newest(), close.clone());
                (serve.await.map_err(|error| failure::of_start(&error))?, None)
            }
        };
        let peer = running.peer().clone();
        // Lists are kept here, by other rules.
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let Some(info) = peer.peer_info() else {
            return Err(failure::unusable("the MCP server did not introduce itself"));
        };
        tasks.spawn(supervise(running, process, close.clone()));
        let connection = Self {
            peer,
            info,
            in_flight,
            listed: Mutex::default(),
            _close_on_drop: close.clone().drop_guard(),
            close,
            last_used: StdMutex::new(Instant::now()),
        };
        connection.hear_of_changes(tasks);
        Ok(connection)
    }

    pub(super) fn is_open(&self) -> bool {
        !self.close.is_cancelled() && !self.peer.is_transport_closed()
    }

    /// Cancelled when the connection has ended.
    pub(super) fn closed(&self) -> CancellationToken {
        self.close.clone()
    }

    pub(super) fn touch(&self) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(super) fn unused_for(&self) -> Duration {
        self.last_used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// By the revision that has no sessions.
    pub(super) fn is_stateless(&self) -> bool {
        !self.info.protocol_version.has_initialize()
    }

    pub(super) fn resolved(&self) -> ResolvedToolset {
        let server = self.info.server_info.as_ref();
        ResolvedToolset {
            server: server.map(|server| server.name.clone()),
            version: server.map(|server| server.version.clone()),
            protocol: Some(self.info.protocol_version.to_string()),
            error: None,
        }
    }
}

/// `server/discover`, then `initialize` if the server does not know it.
fn newest() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}

/// Some servers of older revisions exit when the first request is not `initialize`. Such a server is started once more.
async fn open_process(
    endpoint: &McpEndpoint,
    in_flight: &Arc<InFlight>,
    close: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<(Running, Option<Process>), ToolFailure> {
    let McpEndpoint::Command { program, args, env, cwd } = endpoint else {
        return Err(failure::unusable("this MCP server is no process"));
    };
    let mut lifecycle = newest();
    loop {
        let (transport, process) = process::spawn(program, args, env, cwd.as_ref(), tasks)?;
        let again = lifecycle != ClientLifecycleMode::Initialize;
        let serve = serve_client_with_lifecycle_and_ct(Arc::clone(in_flight), transport, lifecycle, close.clone());
        match serve.await {
            Ok(running) => return Ok((running, Some(process))),
            Err(ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }) if again => {
                lifecycle = ClientLifecycleMode::Initialize;
            }
            Err(error) => return Err(process.post_mortem().await.unwrap_or_else(|| failure::of_start(&error))),
        }
    }
}

/// Until the connection has ended.
async fn supervise(running: Running, process: Option<Process>, close: CancellationToken) {
    let mut serving = std::pin::pin!(running.waiting());
    if let Some(mut process) = process {
        tokio::select! {
            _ = &mut serving => {}
            () = process.exited() => {
                // Its descendants may hold its output open.
                if timeout(LAST_WORDS, &mut serving).await.is_err() {
                    process.kill();
                    let _ = serving.await;
                }
            }
        }
        close.cancel();
        process.end().await;
    } else {
        let _ = serving.await;
        close.cancel();
    }
}
