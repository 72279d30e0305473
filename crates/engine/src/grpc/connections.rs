//! Accepts connections and holds each of them to its limits until the end.

use std::{convert::Infallible, io, pin::pin, sync::Arc, time::Duration};

use hyper::{server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{
    Handler,
    exchange::{CALL_GRACE, exchange},
};

/// Further clients wait in the listener's backlog.
const CONNECTIONS: usize = 1024;

/// Calls at a time on one connection. A worker keeps a stream open for each of its pollers.
const STREAMS: u32 = 1000;

const HEADER_LIMIT: u32 = 64 << 10;

/// A peer that does not answer a ping is gone, and its polls with it.
const PING_EVERY: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Pings start after the handshake; a peer that does not even begin it has this long.
const FIRST_BYTE: Duration = Duration::from_secs(20);

/// How long a connection may take to end after its last call was cut off.
const CONNECTION_GRACE: Duration = Duration::from_millis(500);

/// Without it, a listener that cannot accept (out of file descriptors) would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown`, then lets calls end for a moment and returns when every connection is closed.
pub async fn serve<H: Handler>(listener: TcpListener, handler: H, shutdown: CancellationToken) {
    let connections = TaskTracker::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    while let Some(accepted) = shutdown.run_until_cancelled(accept(&listener, &room)).await {
        match accepted {
            Ok((stream, place)) => {
                let served = serve_connection(stream, handler.clone(), shutdown.clone());
                connections.spawn(async move {
                    served.await;
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, place))
}

async fn serve_connection<H: Handler>(stream: TcpStream, handler: H, shutdown: CancellationToken) {
    let Some(Ok(Ok(()))) = shutdown.run_until_cancelled(time::timeout(FIRST_BYTE, stream.readable())).await else {
        return;
    };
    let calls = shutdown.clone();
    let service = service_fn(move |request| {
        let exchanged = exchange(request, handler.clone(), calls.clone());
        async move { Ok::<_, Infallible>(exchanged.await) }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER_LIMIT)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);

    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match time::timeout(CALL_GRACE + CONNECTION_GRACE, connection).await {
                Ok(ended) => ended,
                Err(_) => return debug!("a peer kept its connection open past shutdown"),
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended early");
    }
}
