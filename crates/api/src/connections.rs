//! Accepts connections and holds each of them to its limits until the end.

use std::{convert::Infallible, pin::pin, sync::Arc};

use axum::{Router, body::Body};
use http_body_util::BodyExt as _;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    time,
};
use tower::ServiceExt as _;
use tracing::debug;
use windlass_ports::Place;

use crate::app::App;

/// What a connection buffers of a request's head or a response, at most.
const BUFFER: usize = 64 * 1024;

/// Serves until the app drains; returns when every connection is closed.
pub(crate) async fn serve(listener: TcpListener, router: Router, app: &Arc<App>) {
    windlass_ports::serve(listener, app.limits.connections, &app.draining, |stream, place| {
        let (router, app) = (router.clone(), Arc::clone(app));
        async move { serve_connection(stream, router, &app, place).await }
    })
    .await;
}

async fn serve_connection(stream: TcpStream, router: Router, app: &App, place: Arc<Place>) {
    // The connection is needed until the last byte of a response, which of a stream of events may be days away.
    let service = service_fn(move |request: Request<Incoming>| {
        let (call, answer) = (place.call(), router.clone().oneshot(request.map(Body::new)));
        async move {
            let response = answer.await?;
            Ok::<_, Infallible>(response.map(|body| {
                body.map_frame(move |frame| {
                    let _until_its_end = &call;
                    frame
                })
            }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.head_timeout)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
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
