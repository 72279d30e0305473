//! One connection to a server.

use std::{
    sync::{
        Arc, Mutex as StdMutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
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
    http::HttpClient,
    in_flight::InFlight,
    listing::Listed,
    process::{self, Process},
};
use crate::ToolFailure;

/// POSTs in flight at once. A server that answers without a stream holds one for each call.
const POSTS: usize = 256;
/// How often a broken response stream is taken up again where it broke off. That repeats no call.
const STREAM_RESUMPTIONS: usize = 3;
/// Before the first; twice as long before each further one.
const RESUMPTION_PAUSE: Duration = Duration::from_millis(250);
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
    session_lost: Arc<AtomicBool>,
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
        let session_lost = Arc::default();
        let (running, process) = start(&endpoint, &in_flight, &session_lost, &close, tasks).await?;
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
            session_lost,
            last_used: StdMutex::new(Instant::now()),
        };
        connection.hear_of_changes(tasks);
        Ok(connection)
    }

    /// Whether it may be used for something new.
    pub(super) fn is_open(&self) -> bool {
        let ended = self.close.is_cancelled() || self.peer.is_transport_closed();
        !ended && !self.session_lost.load(Ordering::Acquire)
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

/// The newest revision first. Three kinds of older servers need a second start that begins with `initialize`: those that
/// exit on any other first request, those that know `server/discover` only to refuse the revision, and those that answer
/// every request, also one that they do not know.
async fn start(
    endpoint: &McpEndpoint,
    in_flight: &Arc<InFlight>,
    session_lost: &Arc<AtomicBool>,
    close: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<(Running, Option<Process>), ToolFailure> {
    // `server/discover`, then `initialize` if the server says that it does not know it.
    let newest = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    let error = match attempt(endpoint, newest, in_flight, session_lost, close, tasks).await? {
        Ok(started) => return Ok(started),
        Err(error) => error,
    };
    let exited = error.process.is_some() && is_cut_off(&error.cause);
    if !exited && !is_older(&error.cause) {
        return Err(failure::of_start(&error.cause));
    }
    drop(error);
    match attempt(endpoint, ClientLifecycleMode::Initialize, in_flight, session_lost, close, tasks).await? {
        Ok(started) => Ok(started),
        Err(NotStarted { cause, process: Some(process) }) if is_cut_off(&cause) => Err(process.post_mortem().await),
        Err(error) => Err(failure::of_start(&error.cause)),
    }
}

struct NotStarted {
    cause: ClientInitializeError,
    process: Option<Process>,
}

fn is_cut_off(cause: &ClientInitializeError) -> bool {
    matches!(cause, ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. })
}

fn is_older(cause: &ClientInitializeError) -> bool {
    match cause {
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            server_supported.iter().any(ProtocolVersion::has_initialize)
        }
        ClientInitializeError::ExpectedInitResult(_) => true,
        _ => false,
    }
}

async fn attempt(
    endpoint: &McpEndpoint,
    lifecycle: ClientLifecycleMode,
    in_flight: &Arc<InFlight>,
    session_lost: &Arc<AtomicBool>,
    close: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<Result<(Running, Option<Process>), NotStarted>, ToolFailure> {
    let client = Arc::clone(in_flight);
    let (outcome, process) = match endpoint {
        McpEndpoint::Command { program, args, env, cwd } => {
            let (transport, process) = process::spawn(program, args, env, cwd.as_ref(), tasks)?;
            let serve = serve_client_with_lifecycle_and_ct(client, transport, lifecycle, close.clone());
            (serve.await, Some(process))
        }
        McpEndpoint::Http { url, client: http, headers } => {
            let mut backoff = ExponentialBackoff::default();
            backoff.max_times = Some(STREAM_RESUMPTIONS);
            backoff.base_duration = RESUMPTION_PAUSE;
            let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str()).max_concurrent_requests(POSTS);
            config.retry_config = Arc::new(backoff);
            config.custom_headers = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            let http = HttpClient { client: http.clone(), session_lost: Arc::clone(session_lost) };
            let transport = StreamableHttpClientTransport::with_client(http, config);
            (serve_client_with_lifecycle_and_ct(client, transport, lifecycle, close.clone()).await, None)
        }
    };
    Ok(match outcome {
        Ok(running) => Ok((running, process)),
        Err(cause) => Err(NotStarted { cause, process }),
    })
}

/// Until the connection has ended.
async fn supervise(running: Running, process: Option<Process>, close: CancellationToken) {
    let mut serving = std::pin::pin!(running.waiting());
    if let Some(mut process) = process {
        let ended = tokio::select! {
            _ = &mut serving => true,
            () = process.exited() => false,
            () = close.cancelled() => false,
        };
        // Descendants of the process may hold its output open, and one that reads nothing may block a write.
        if !ended && timeout(LAST_WORDS, &mut serving).await.is_err() {
            process.kill();
            let _ = serving.await;
        }
        close.cancel();
        process.end().await;
    } else {
        let _ = serving.await;
        close.cancel();
    }
}
