//! Accepts connections and enforces their limits. A client speaks HTTP/1.1, or HTTP/2 from its first byte (gRPC does).

use std::{convert::Infallible, future::poll_fn, io, pin, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, HttpBody},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header::HOST};
use http_body_util::BodyExt as _;
use hyper::{
    Request,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time,
};
use tower::ServiceExt as _;
use tracing::debug;
use windlass_core::limits;
use windlass_listener::Slot;

use crate::{app::App, error::ApiError};

/// How long a closing connection still reads, so that the client can read the last response.
const LINGER: Duration = Duration::from_secs(5);
/// How many bytes it reads meanwhile: the largest request.
const LINGER_BYTES: usize = limits::BODY_BYTES;

/// The first bytes of HTTP/2; no method of HTTP/1.1 begins with them.
const HTTP2: &[u8; 4] = b"PRI ";
/// How long a connection whose first bytes may be either waits for more. They nearly always come in one packet.
const NEXT_BYTE: Duration = Duration::from_millis(5);
/// Concurrent requests on one connection of HTTP/2. Those that are not streams also count as requests of the server.
const STREAMS: u32 = 256;
/// How long a client of HTTP/2 may take to answer a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves until the app drains; returns when every connection is closed.
pub(crate) async fn serve(listener: TcpListener, router: Router, app: &Arc<App>) {
    windlass_listener::serve(listener, app.limits.connections, &app.draining, |stream, slot| {
        let (router, app) = (router.clone(), Arc::clone(app));
        async move { serve_connection(stream, router, &app, slot).await }
    })
    .await;
}

async fn serve_connection(stream: TcpStream, router: Router, app: &App, slot: Arc<Slot>) {
    let first = time::timeout(app.limits.head_timeout, speaks_http2(&stream));
    let http2 = match app.draining.run_until_cancelled(first).await {
        Some(Ok(Ok(http2))) => http2,
        Some(Ok(Err(error))) => return debug!(%error, "connection ended before a request"),
        Some(Err(_)) => return debug!("a client connected and sent nothing in time"),
        None => return,
    };
    let requests = Requests { router, slot };
    if http2 { serve_http2(stream, requests, app).await } else { serve_http1(stream, requests, app).await }
}

/// The requests of a connection.
struct Requests {
    router: Router,
    slot: Arc<Slot>,
}

impl Requests {
    /// The slot is held until the last byte of the response; an event stream may last for days.
    fn answer(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<impl HttpBody<Data = Bytes, Error = axum::Error> + use<>>, Infallible>> + use<>
    {
        let (call, router) = (self.slot.call(), self.router.clone());
        Box::pin(async move {
            let response = match checked(request) {
                Ok(request) => router.oneshot(request).await?,
                Err(error) => error.into_response(),
            };
            Ok(response.map(|body| {
                body.map_frame(move |frame| {
                    let _until_its_end = &call;
                    frame
                })
            }))
        })
    }
}

/// Looks at the first bytes and leaves them to be read.
async fn speaks_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0; HTTP2.len()];
    loop {
        let read = stream.peek(&mut first).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if first[..read] != HTTP2[..read] {
            return Ok(false);
        }
        if read == HTTP2.len() {
            return Ok(true);
        }
        time::sleep(NEXT_BYTE).await;
    }
}

/// HTTP/2 has the host outside the headers, and no limit on their number.
fn checked(request: Request<Incoming>) -> Result<Request<Body>, ApiError> {
    let mut request = request.map(Body::new);
    if request.headers().len() > limits::HEADERS {
        let message = format!("the request has more than {} headers", limits::HEADERS);
        return Err(ApiError::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "invalid_request", message));
    }
    let host = request.uri().authority().and_then(|authority| HeaderValue::try_from(authority.as_str()).ok());
    if let Some(host) = host
        && !request.headers().contains_key(HOST)
    {
        request.headers_mut().insert(HOST, host);
    }
    Ok(request)
}

async fn serve_http1(stream: TcpStream, requests: Requests, app: &App) {
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.head_timeout)
        // What is buffered of a request's head or a response.
        .max_buf_size(limits::HEAD_BYTES)
        .max_headers(limits::HEADERS)
        .serve_connection(TokioIo::new(stream), service_fn(move |request| requests.answer(request)));
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

async fn serve_http2(stream: TcpStream, requests: Requests, app: &App) {
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(limits::HEAD_BYTES).unwrap_or(u32::MAX))
        .keep_alive_interval(app.limits.keep_alive)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service_fn(move |request| requests.answer(request)));
    let mut connection = pin::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = app.draining.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match time::timeout(app.limits.grace, connection).await {
                Ok(ended) => ended,
                Err(_) => return debug!("request cut off by the shutdown"),
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended early");
    }
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
