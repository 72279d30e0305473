//! Accepts connections and enforces their limits.

use std::{convert::Infallible, future::poll_fn, io, pin, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use http_body_util::BodyExt as _;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time,
};
use tower::ServiceExt as _;
use tracing::debug;
use windlass_core::limits;
use windlass_listener::Slot;

use crate::app::App;

/// How long a closing connection still reads, so that the client can read the last response.
const LINGER: Duration = Duration::from_secs(5);
/// How many bytes it reads meanwhile: the largest request.
const LINGER_BYTES: usize = limits::BODY_BYTES;

/// Serves until the app drains; returns when every connection is closed.
pub(crate) async fn serve(listener: TcpListener, router: Router, app: &Arc<App>) {
    windlass_listener::serve(listener, app.limits.connections, &app.draining, |stream, slot| {
        let (router, app) = (router.clone(), Arc::clone(app));
        async move { serve_connection(stream, router, &app, slot).await }
    })
    .await;
}

async fn serve_connection(stream: TcpStream, router: Router, app: &App, slot: Arc<Slot>) {
    // The slot is held until the last byte of the response; an event stream may last for days.
    let service = service_fn(move |request: Request<Incoming>| {
        let (call, answer) = (slot.call(), router.clone().oneshot(request.map(Body::new)));
        Box::pin(async move {
            let response = answer.await?;
            Ok::<_, Infallible>(response.map(|body| {
                body.map_frame(move |frame| {
                    let _until_its_end = &call;
                    frame
                })
            }))
        })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.head_timeout)
        // What is buffered of a request's head or a response.
        .max_buf_size(limits::HEAD_BYTES)
        .max_headers(limits::HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let ended = tokio::select! {
        ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => ended,
        () = app.draining.cancelled() => {
            pin::Pin::new(&mut connection).graceful_shutdown();
            match time::timeout(app.limits.grace, poll_fn(|cx| connection.poll_without_shutdown(cx))).await {
                Ok(ended) => ended,
                Err(_) => return debug!("request cut off by the shutdown"),
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended early");
    }
    let stream = connection.into_parts().io.into_inner();
    app.draining.run_until_cancelled(linger(stream)).await;
}

/// Closes a connection so that its client can read the response. What the client still sends is read and dropped for
/// a while: otherwise the connection would be reset, and the response lost.
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
