//! Tests over a real socket, with Temporal's own stubs and with plain HTTP/2 for requests that the stubs cannot send.

use std::{convert::Infallible, future, net::SocketAddr, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::{
    body::{Body as _, Incoming},
    client::conn::http2,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use temporalio_protos::temporal::api::{
    namespace::v1::NamespaceInfo,
    workflowservice::v1::{
        DescribeNamespaceRequest, DescribeNamespaceResponse, SignalWorkflowExecutionRequest,
        workflow_service_client::WorkflowServiceClient,
    },
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Status,
    body::Body,
    codec::CompressionEncoding,
    transport::{Channel, Endpoint},
};

use super::{
    Handler,
    exchange::{COMPRESS_FROM, MESSAGE_LIMIT},
    serve,
};
use crate::{Answer, Call, ServiceError};

const SERVICE: &str = "temporal.api.workflowservice.v1.WorkflowService";

struct Port {
    address: SocketAddr,
    shutdown: CancellationToken,
    served: JoinHandle<()>,
}

impl Port {
    async fn open(handler: impl Handler) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let served = tokio::spawn(serve(listener, handler, shutdown.clone()));
        Self { address, shutdown, served }
    }

    async fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    async fn client(&self) -> WorkflowServiceClient<Channel> {
        WorkflowServiceClient::new(self.channel().await)
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], message: &[u8]) -> Raw {
        let mut request = Request::post(format!("http://{}{path}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut frame = vec![0];
        frame.extend((message.len() as u32).to_be_bytes());
        frame.extend(message);
        self.send(request.body(whole(frame)).unwrap()).await
    }

    async fn send(&self, request: Request<Body>) -> Raw {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Raw::read(sender.send_request(request).await.unwrap()).await
    }

    async fn close(self) {
        self.shutdown.cancel();
        self.served.await.unwrap();
    }
}

fn whole(bytes: Vec<u8>) -> Body {
    Body::new(StreamedBody(stream::iter([Bytes::from(bytes)]).boxed()))
}

pub(super) struct StreamedBody(pub(super) stream::BoxStream<'static, Bytes>);

impl hyper::body::Body for StreamedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        self.0.poll_next_unpin(context).map(|next| next.map(|data| Ok(hyper::body::Frame::data(data))))
    }
}

/// A response as it is on the wire; `headers` include the trailers.
struct Raw {
    http: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Raw {
    async fn read(response: Response<Incoming>) -> Self {
        let (parts, mut incoming) = response.into_parts();
        let mut raw = Self { http: parts.status, headers: parts.headers, body: Vec::new() };
        while let Some(frame) = future::poll_fn(|context| std::pin::Pin::new(&mut incoming).poll_frame(context)).await {
            match frame.unwrap().into_data() {
                Ok(data) => raw.body.extend(data),
                Err(frame) => raw.headers.extend(frame.into_trailers().unwrap()),
            }
        }
        raw
    }

    fn status(&self) -> (i32, &str) {
        let text = |name: &str| self.headers.get(name).map_or("", |value| value.to_str().unwrap());
        (text("grpc-status").parse().unwrap(), text("grpc-message"))
    }
}

fn echo(call: Call) -> BoxFuture<'static, Answer> {
    future::ready(Ok(call.message.to_vec())).boxed()
}

fn describe(namespace: &str) -> DescribeNamespaceRequest {
    DescribeNamespaceRequest { namespace: namespace.into(), ..Default::default() }
}

fn described(namespace: &str) -> DescribeNamespaceResponse {
    let info = NamespaceInfo { name: namespace.into(), ..Default::default() };
    DescribeNamespaceResponse { namespace_info: Some(info), ..Default::default() }
}

#[tokio::test]
async fn a_call_reaches_the_handler_and_its_reply_the_client() {
    let (seen, mut calls) = mpsc::unbounded_channel();
    let port = Port::open(move |call: Call| {
        seen.send(call).unwrap();
        future::ready(Ok(described("default").encode_to_vec())).boxed()
    })
    .await;

    let mut request = tonic::Request::new(describe("default"));
    request.set_timeout(Duration::from_secs(30));
    let answer = port.client().await.describe_namespace(request).await.unwrap();

    assert_eq!(answer.into_inner(), described("default"));
    let Call { service, rpc, message, timeout, .. } = calls.recv().await.unwrap();
    assert_eq!(
        (service.as_str(), rpc.as_str(), message, timeout),
        (SERVICE, "DescribeNamespace", Bytes::from(describe("default").encode_to_vec()), Some(Duration::from_secs(30)))
    );
    port.close().await;
}

#[tokio::test]
async fn requests_and_replies_may_be_gzipped() {
    let port = Port::open(|call: Call| {
        let request = DescribeNamespaceRequest::decode(call.message).unwrap();
        future::ready(Ok(described(&request.namespace).encode_to_vec())).boxed()
    })
    .await;
    let mut client =
        port.client().await.send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip);

    let long = "n".repeat(100_000);
    let answer = client.describe_namespace(describe(&long)).await.unwrap();

    assert_eq!(answer.metadata().get("grpc-encoding").unwrap(), "gzip");
    assert_eq!(answer.into_inner(), described(&long));
    port.close().await;
}

#[tokio::test]
async fn only_large_replies_are_compressed_and_only_for_clients_that_accept_it() {
    let port = Port::open(echo).await;
    let accepts = [("grpc-accept-encoding", "gzip")];
    let (small, large) = (vec![b'x'; COMPRESS_FROM - 1], vec![b'x'; COMPRESS_FROM]);

    let answers = [
        port.post("/any.Service/Rpc", &accepts, &small).await.body,
        port.post("/any.Service/Rpc", &accepts, &large).await.body,
        port.post("/any.Service/Rpc", &[], &large).await.body,
    ];

    let compressed_flags = answers.each_ref().map(|answer| answer[0]);
    assert_eq!(compressed_flags, [0, 1, 0]);
    assert_eq!((&answers[0][5..], &answers[2][5..]), (&small[..], &large[..]));
    assert!(answers[1].len() < COMPRESS_FROM / 2);
    port.close().await;
}

#[tokio::test]
async fn error_details_are_sent_to_the_client() {
    let error = || ServiceError::AlreadyStarted {
        first_run_id: "first".to_owned(),
        message: "Workflow execution is already running.".into(),
        start_request_id: "request".into(),
        run_id: "run".into(),
    };
    let port = Port::open(move |_| future::ready(Err(error().into())).boxed()).await;

    let status = port.client().await.describe_namespace(describe("default")).await.unwrap_err();

    let sent = Status::from(error());
    assert_eq!(
        (status.code(), status.message(), status.details()),
        (Code::AlreadyExists, "Workflow execution is already running.", sent.details())
    );
    assert!(!status.details().is_empty());
    port.close().await;
}

#[tokio::test]
async fn every_service_and_rpc_reaches_the_handler() {
    let port =
        Port::open(|call: Call| future::ready(Ok(format!("{} {}", call.service, call.rpc).into_bytes())).boxed()).await;

    let answer = port.post("/some.other.v1.Service/NoSuchRpc", &[], b"").await;

    assert_eq!((&answer.body[5..], answer.status()), (&b"some.other.v1.Service NoSuchRpc"[..], (0, "")));
    port.close().await;
}

#[tokio::test]
async fn requests_that_are_not_grpc_are_rejected() {
    let port = Port::open(echo).await;

    let malformed = port.post("/nothing", &[], b"").await;
    assert_eq!(malformed.status(), (Code::Unimplemented as i32, "malformed%20method%20name:%20%22/nothing%22"));
    let timeout = port.post("/any.Service/Rpc", &[("grpc-timeout", "soon")], b"").await;
    assert_eq!(timeout.status(), (Code::Internal as i32, "malformed%20grpc-timeout:%20%22soon%22"));
    let encoding = port.post("/any.Service/Rpc", &[("grpc-encoding", "br")], b"").await;
    assert_eq!(encoding.status().0, Code::Unimplemented as i32);

    let url = format!("http://{}/any.Service/Rpc", port.address);
    let get = Request::get(&url).header("content-type", "application/grpc").body(Body::empty()).unwrap();
    assert_eq!(port.send(get).await.http, StatusCode::METHOD_NOT_ALLOWED);
    let json = Request::post(&url).header("content-type", "application/json").body(Body::empty()).unwrap();
    assert_eq!(port.send(json).await.http, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let empty = Request::post(&url).header("content-type", "application/grpc").body(Body::empty()).unwrap();
    assert_eq!(port.send(empty).await.status().0, Code::Internal as i32);
    port.close().await;
}

#[tokio::test]
async fn headers_have_a_limit() {
    let port = Port::open(echo).await;
    let long = "x".repeat(100_000);

    let answer = port.post("/any.Service/Rpc", &[("authorization", &long)], b"").await;

    assert_eq!(answer.http, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    port.close().await;
}

#[tokio::test]
async fn messages_have_a_limit_before_and_after_decompression() {
    let port = Port::open(echo).await;
    let sized = |length: usize| {
        // Tag and length of the only field take five bytes.
        DescribeNamespaceRequest { namespace: "n".repeat(length - 5), ..Default::default() }
    };
    assert_eq!(sized(MESSAGE_LIMIT).encoded_len(), MESSAGE_LIMIT);

    let largest = port.post("/any.Service/Rpc", &[], &sized(MESSAGE_LIMIT).encode_to_vec()).await;
    assert_eq!((largest.status().0, largest.body.len()), (0, MESSAGE_LIMIT + 5));

    let mut client = port.client().await;
    let plain = client.describe_namespace(sized(MESSAGE_LIMIT + 1)).await.unwrap_err();
    assert_eq!(plain.code(), Code::ResourceExhausted);
    assert!(plain.message().starts_with("grpc: received message larger than max"), "{plain}");
    assert!(plain.message().contains("4194305"), "{plain}");

    let mut client = client.send_compressed(CompressionEncoding::Gzip);
    let bomb = client.describe_namespace(sized(2 * MESSAGE_LIMIT)).await.unwrap_err();
    assert_eq!(bomb.code(), Code::ResourceExhausted);
    assert!(bomb.message().starts_with("grpc: received message after decompression larger than max"), "{bomb}");
    port.close().await;
}

/// A call that never completes. It reports when it begins and when it is dropped.
fn never(begun: mpsc::UnboundedSender<()>, dropped: CancellationToken) -> impl Handler {
    move |_| {
        let guard = dropped.clone().drop_guard();
        begun.send(()).unwrap();
        async move {
            let _guard = guard;
            future::pending().await
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_deadline_ends_the_call() {
    let (begun, _calls) = mpsc::unbounded_channel();
    let dropped = CancellationToken::new();
    let port = Port::open(never(begun, dropped.clone())).await;

    let answer = port.post("/any.Service/Poll", &[("grpc-timeout", "500m")], b"").await;

    assert_eq!(answer.status(), (Code::DeadlineExceeded as i32, "context%20deadline%20exceeded"));
    dropped.cancelled().await;
    port.close().await;
}

#[tokio::test]
async fn a_client_that_disconnects_cancels_its_call() {
    let (begun, mut calls) = mpsc::unbounded_channel();
    let dropped = CancellationToken::new();
    let port = Port::open(never(begun, dropped.clone())).await;

    let mut client = port.client().await;
    let pending = tokio::spawn(async move { client.describe_namespace(describe("default")).await });
    calls.recv().await.unwrap();
    pending.abort();

    dropped.cancelled().await;
    port.close().await;
}

#[tokio::test]
async fn shutdown_ends_long_polls_and_idle_connections() {
    let (begun, mut calls) = mpsc::unbounded_channel();
    let dropped = CancellationToken::new();
    let port = Port::open(never(begun, dropped.clone())).await;
    let silent = TcpStream::connect(port.address).await.unwrap();
    let mut client = port.client().await;
    let pending = tokio::spawn(async move { client.describe_namespace(describe("default")).await });
    calls.recv().await.unwrap();

    let address = port.address;
    port.close().await;

    dropped.cancelled().await;
    let status = pending.await.unwrap().unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "the engine is shutting down; try again"));
    assert!(TcpStream::connect(address).await.is_err());
    drop(silent);
}

#[tokio::test]
async fn a_short_call_is_answered_during_shutdown() {
    let (begun, mut calls) = mpsc::unbounded_channel();
    let finish = CancellationToken::new();
    let port = Port::open({
        let finish = finish.clone();
        move |call: Call| {
            begun.send(()).unwrap();
            finish.clone().cancelled_owned().map(move |()| Ok(call.message.to_vec())).boxed()
        }
    })
    .await;
    let mut client = port.client().await;
    let pending =
        tokio::spawn(async move { client.signal_workflow_execution(SignalWorkflowExecutionRequest::default()).await });
    calls.recv().await.unwrap();

    port.shutdown.cancel();
    finish.cancel();

    port.served.await.unwrap();
    pending.await.unwrap().unwrap();
}
