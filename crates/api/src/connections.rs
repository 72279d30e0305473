//! Accepts connections and holds each of them to its limits until the end.

use std::{future::poll_fn, io, pin, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use hyper::{Request, body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time,
};
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::{debug, warn};

use windlass_core::limits;

use crate::app::App;

/// Without it, a listener that cannot accept (out of file descriptors) would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a connection that is closed reads on, so that its client gets to read its last answer.
const LINGER: Duration = Duration::from_secs(5);
/// How much it reads meanwhile: as much as any client may send.
const LINGER_BYTES: usize = limits::BODY_BYTES;

/// Serves until the app drains; returns when every connection is closed.
pub(crate) async fn serve(listener: TcpListener, router: Router, app: &Arc<App>) {
    let connections = TaskTracker::new();
    let room = Arc::new(Semaphore::new(app.limits.connections));
    while let Some(accepted) = app.draining.run_until_cancelled(accept(&listener, &room)).await {
        match accepted {
            Ok((stream, place)) => {
                let (router, app) = (router.clone(), Arc::clone(app));
                connections.spawn(async move {
                    serve_connection(stream, router, &app).await;
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

async fn serve_connection(stream: TcpStream, router: Router, app: &App) {
    let service = router.map_request(|request: Request<Incoming>| request.map(Body::new));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.head_timeout)
        // What is buffered of a request's head or a response.
        .max_buf_size(limits::HEAD_BYTES)
        .max_headers(limits::HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let ended = tokio::select! {
        ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => ended,
        () = app.draining.cancelled() => {
            pin::Pin::new(&mut connection).graceful_shutdown();
            match time::timeout(app.limits.grace, poll_fn(|cx| connection.poll_without_shutdown(cx))).await {
                Ok(ended) => ended,
                Err(_) => return debug!("a request was cut off by the shutdown"),
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended early");
    }
    let stream = connection.into_parts().io.into_inner();
    app.draining.run_until_cancelled(linger(stream)).await;
}

/// Closes a connection so that its client can read what was answered. What the client still sends is read and dropped for
/// a while: closing over it would reset the connection, and the answer would be lost.
async fn linger(mut stream: TcpStream) {
    let rest = async {
        stream.shutdown().await?;
        let (mut buffer, mut left) = (vec![0; 16 * 1024], LINGER_BYTES);
        while left > 0 {
            match stream.read(&mut buffer).await? {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
        io::Result::Ok(())
    };
    // A client that is gone has nothing to read.
    let _ = time::timeout(LINGER, rest).await;
}
