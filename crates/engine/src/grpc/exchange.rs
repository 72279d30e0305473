//! One HTTP request and its response: checks that it is gRPC, reads the message, calls the handler.

use std::{future, time::Duration};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio::time;
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Status, Streaming,
    body::Body,
    codec::CompressionEncoding,
    server::{ClientStreamingService, Grpc},
};

use super::{Handler, codec::BytesCodec, timeout::timeout};
use crate::{Answer, Call};

/// The largest message that is read, before and after decompression. Temporal's frontend has the same limit.
pub(super) const MESSAGE_LIMIT: usize = 4 << 20;

/// Smaller replies are not compressed.
pub(super) const COMPRESS_FROM: usize = 1 << 10;

/// How long calls may continue after shutdown began. Long polls are ended here.
pub(super) const CALL_GRACE: Duration = Duration::from_millis(500);

pub(super) async fn exchange<H: Handler>(
    request: Request<Incoming>,
    handler: H,
    shutdown: CancellationToken,
    message_within: Duration,
) -> Response<Body> {
    if let Some(refused) = not_grpc(&request) {
        return refused;
    }
    let (Some((service, rpc)), timeout) = (names(request.uri().path()), timeout(request.headers())) else {
        return Status::unimplemented(format!("malformed method name: {:?}", request.uri().path())).into_http();
    };
    let timeout = match timeout {
        Ok(timeout) => timeout,
        Err(status) => return status.into_http(),
    };
    let unary = Unary { service, rpc, timeout, handler, shutdown, message_within };
    Grpc::new(BytesCodec)
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(MESSAGE_LIMIT)
        // A unary call is read as a stream of one message, so that errors can be given the texts that clients look for.
        .client_streaming(unary, request)
        .await
}

fn not_grpc(request: &Request<Incoming>) -> Option<Response<Body>> {
    let content_type = request.headers().get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let status = match content_type.strip_prefix(b"application/grpc") {
        _ if request.method() != Method::POST => StatusCode::METHOD_NOT_ALLOWED,
        Some([] | [b'+' | b';', ..]) => return None,
        _ => StatusCode::UNSUPPORTED_MEDIA_TYPE,
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    Some(response)
}

/// Service and RPC of a path.
fn names(path: &str) -> Option<(String, String)> {
    let (service, rpc) = path.strip_prefix('/')?.rsplit_once('/')?;
    Some((service.to_owned(), rpc.to_owned()))
}

struct Unary<H> {
    service: String,
    rpc: String,
    timeout: Option<Duration>,
    handler: H,
    shutdown: CancellationToken,
    message_within: Duration,
}

impl<H: Handler> ClientStreamingService<Bytes> for Unary<H> {
    type Response = Vec<u8>;
    type Future = BoxFuture<'static, Result<tonic::Response<Vec<u8>>, Status>>;

    fn call(&mut self, request: tonic::Request<Streaming<Bytes>>) -> Self::Future {
        let client = request.metadata().get("client-name").and_then(|name| name.to_str().ok());
        let call = Call {
            service: self.service.clone(),
            rpc: self.rpc.clone(),
            message: Bytes::new(),
            timeout: self.timeout,
            client: client.unwrap_or_default().to_owned(),
            local: false,
        };
        let (handler, shutdown, timeout) = (self.handler.clone(), self.shutdown.clone(), self.timeout);
        let message_within = self.message_within;
        async move {
            let answer = tokio::select! {
                answer = answer(call, request.into_inner(), handler, message_within) => answer?,
                () = expiry(timeout) => return Err(Status::deadline_exceeded("context deadline exceeded")),
                () = cutoff(shutdown) => return Err(Status::unavailable("the engine is shutting down; try again")),
            };
            let small = answer.len() < COMPRESS_FROM;
            let mut response = tonic::Response::new(answer);
            if small {
                response.disable_compression();
            }
            Ok(response)
        }
        .boxed()
    }
}

async fn answer<H: Handler>(call: Call, mut messages: Streaming<Bytes>, handler: H, within: Duration) -> Answer {
    let message = time::timeout(within, messages.message()).await;
    let message = message.map_err(|_| Status::deadline_exceeded("the request's message did not come"))?;
    let message = message.map_err(unreadable)?;
    let message = message.ok_or_else(|| Status::internal("the request has no message"))?;
    handler(Call { message, ..call }).await
}

/// Workers recognise a message that is too large by the start of this text. With another text they would retry forever.
fn unreadable(status: Status) -> Status {
    let prefix = match status.code() {
        Code::OutOfRange => "grpc: received message larger than max",
        Code::ResourceExhausted => "grpc: received message after decompression larger than max",
        _ => return status,
    };
    Status::resource_exhausted(format!("{prefix} ({})", status.message()))
}

async fn expiry(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => time::sleep(timeout).await,
        None => future::pending().await,
    }
}

async fn cutoff(shutdown: CancellationToken) {
    shutdown.cancelled().await;
    time::sleep(CALL_GRACE).await;
}
