//! Accepts connections and enforces their limits.

use std::{convert::Infallible, io, pin::pin, sync::Arc, time::Duration};

use hyper::{server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    net::{TcpListener, TcpStream},
    time,
};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use windlass_listener::Slot;

use super::{
    Handler,
    exchange::{CALL_GRACE, exchange},
};

/// Concurrent calls on one connection. A worker keeps a stream open for each of its pollers.
const STREAMS: u32 = 1000;

const HEADER_LIMIT: u32 = 64 << 10;

/// The first bytes of every HTTP/2 client.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long a connection may take to close after its last call was ended.
const CONNECTION_GRACE: Duration = Duration::from_millis(500);

/// The limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) connections: usize,
    /// How long a client may take to send the preface. Pings start after that.
    pub(super) first_bytes: Duration,
    /// A client that does not answer a ping is disconnected, which ends its polls.
    pub(super) ping_every: Duration,
    pub(super) ping_timeout: Duration,
    /// How long a call's message may take to arrive. Without this limit, a call without a message would keep its slot.
    pub(super) message_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            first_bytes: Duration::from_secs(20),
            ping_every: Duration::from_secs(60),
            ping_timeout: Duration::from_secs(20),
            message_within: Duration::from_secs(30),
        }
    }
}

/// Serves until `shutdown`, then gives calls a short time to end and returns when every connection is closed.
pub async fn serve<H: Handler>(listener: TcpListener, handler: H, shutdown: CancellationToken) {
    serve_within(Limits::default(), listener, handler, shutdown).await;
}

pub(super) async fn serve_within<H: Handler>(
    limits: Limits,
    listener: TcpListener,
    handler: H,
    shutdown: CancellationToken,
) {
    windlass_listener::serve(listener, limits.connections, &shutdown, |stream, slot| {
        serve_connection(limits, stream, handler.clone(), shutdown.clone(), slot)
    })
    .await;
}

/// Waits for the preface, which stays readable in the returned stream.
async fn greeted(mut stream: TcpStream) -> io::Result<impl AsyncRead + AsyncWrite + Unpin> {
    let mut said = [0; PREFACE.len()];
    stream.read_exact(&mut said).await?;
    if said != *PREFACE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the peer does not speak HTTP/2"));
    }
    let (read, write) = stream.into_split();
    Ok(tokio::io::join(PREFACE.as_slice().chain(read), write))
}

async fn serve_connection<H: Handler>(
    limits: Limits,
    stream: TcpStream,
    handler: H,
    shutdown: CancellationToken,
    slot: Arc<Slot>,
) {
    let greeting = time::timeout(limits.first_bytes, greeted(stream));
    let stream = match shutdown.run_until_cancelled(greeting).await {
        Some(Ok(Ok(stream))) => stream,
        Some(Ok(Err(error))) => return debug!(%error, "a connection failed before its HTTP/2 preface"),
        Some(Err(_)) => return debug!("a client connected and sent no HTTP/2 preface in time"),
        None => return,
    };
    let calls = shutdown.clone();
    let service = service_fn(move |request| {
        let (call, exchanged) = (slot.call(), exchange(request, handler.clone(), calls.clone(), limits.message_within));
        async move {
            let response = exchanged.await;
            drop(call);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER_LIMIT)
        .keep_alive_interval(limits.ping_every)
        .keep_alive_timeout(limits.ping_timeout)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);

    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match time::timeout(CALL_GRACE + CONNECTION_GRACE, connection).await {
                Ok(ended) => ended,
                Err(_) => return debug!("a client kept its connection open after shutdown; closing it"),
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection failed");
    }
}
