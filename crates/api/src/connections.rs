//! Accepts connections and holds each of them to its limits until the end.

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use hyper::{Request, body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time,
};
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::{debug, warn};

use crate::app::App;

/// Without it, a listener that cannot accept (out of file descriptors) would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a connection buffers of a request's head or a response, at most.
const BUFFER: usize = 64 * 1024;

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
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.head_timeout)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = app.draining.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match time::timeout(app.limits.grace, connection).await {
                Ok(ended) => ended,
                Err(_) => return debug!("a request was cut off by the shutdown"),
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended early");
    }
}
