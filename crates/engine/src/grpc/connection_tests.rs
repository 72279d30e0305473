//! A port with more connections than slots, most of them idle.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use temporalio_protos::{
    grpc::health::v1::{HealthCheckRequest, health_client::HealthClient},
    temporal::api::workflowservice::v1::{
        PollWorkflowTaskQueueRequest, workflow_service_client::WorkflowServiceClient,
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tonic::{
    body::Body,
    transport::{Channel, Endpoint},
};

use super::{
    connections::{Limits, serve_within},
    tests::StreamedBody,
};
use crate::Call;

const CONNECTIONS: usize = 8;

/// Longer than any step of these tests takes.
const TIMEOUT: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_millis(50);

/// The HTTP/2 preface and empty settings.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A port that answers health checks at once, and polls when `go` is notified.
struct Port {
    address: SocketAddr,
    polled: Arc<Notify>,
    go: Arc<Notify>,
    shutdown: CancellationToken,
    served: JoinHandle<()>,
}

impl Port {
    async fn open(limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (polled, go, shutdown) = (Arc::new(Notify::new()), Arc::new(Notify::new()), CancellationToken::new());
        let (poll, wait) = (Arc::clone(&polled), Arc::clone(&go));
        let handler = move |call: Call| {
            let (poll, wait) = (Arc::clone(&poll), Arc::clone(&wait));
            async move {
                if call.rpc == "Check" {
                    return Ok(Vec::new());
                }
                poll.notify_one();
                wait.notified().await;
                Ok(Vec::new())
            }
            .boxed()
        };
        let served = tokio::spawn(serve_within(limits, listener, handler, shutdown.clone()));
        Self { address, polled, go, shutdown, served }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect_lazy()
    }

    /// Whether a new client gets a reply.
    async fn answers(&self) -> bool {
        let mut client = HealthClient::new(self.channel());
        let check = client.check(HealthCheckRequest::default());
        timeout(TIMEOUT, check).await.is_ok_and(|answer| answer.is_ok())
    }

    async fn close(self) {
        self.shutdown.cancel();
        self.served.await.unwrap();
    }
}

/// Timeouts that no test reaches unless it sets them.
fn limits() -> Limits {
    let never = Duration::from_secs(3600);
    Limits {
        connections: CONNECTIONS,
        first_bytes: never,
        ping_every: never,
        ping_timeout: never,
        message_within: never,
    }
}

/// Waits until the server closes the connection.
async fn closed(stream: &mut TcpStream) -> bool {
    let mut read = Vec::new();
    timeout(TIMEOUT, stream.read_to_end(&mut read)).await.is_ok()
}

#[tokio::test]
async fn a_worker_can_connect_while_idle_connections_hold_every_slot() {
    let port = Port::open(limits()).await;
    for greeting in [&b""[..], &GREETING[..1], GREETING] {
        let mut silent = Vec::new();
        for _ in 0..4 * CONNECTIONS {
            let mut stream = port.connect().await;
            // The connection may have been evicted already.
            stream.write_all(greeting).await.ok();
            silent.push(stream);
        }
        assert!(port.answers().await, "no client gets in after {} bytes of each", greeting.len());
    }
    port.close().await;
}

#[tokio::test]
async fn a_polling_worker_keeps_its_connection_while_others_connect() {
    let port = Port::open(limits()).await;
    let mut worker = WorkflowServiceClient::new(port.channel());
    let poll =
        tokio::spawn(async move { worker.poll_workflow_task_queue(PollWorkflowTaskQueueRequest::default()).await });
    port.polled.notified().await;
    let mut silent: Vec<TcpStream> = Vec::new();
    for _ in 0..4 * CONNECTIONS {
        silent.push(port.connect().await);
    }
    assert!(port.answers().await);
    assert!(closed(&mut silent[0]).await, "the oldest connection without a call makes room");
    port.go.notify_one();
    poll.await.unwrap().unwrap();
    port.close().await;
}

#[tokio::test]
async fn a_connection_without_a_preface_in_time_is_closed() {
    let port = Port::open(Limits { first_bytes: SOON, ..limits() }).await;
    let mut silent = Vec::new();
    for sent in [0, 1, GREETING.len() - 10] {
        let mut stream = port.connect().await;
        stream.write_all(&GREETING[..sent]).await.unwrap();
        silent.push(stream);
    }
    for stream in &mut silent {
        assert!(closed(stream).await);
    }
    assert!(port.answers().await);
    port.close().await;
}

#[tokio::test]
async fn a_connection_that_is_not_http2_is_closed() {
    let port = Port::open(limits()).await;
    let mut stream = port.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(closed(&mut stream).await);
    port.close().await;
}

#[tokio::test]
async fn an_idle_connection_that_does_not_answer_pings_is_closed() {
    let port = Port::open(Limits { ping_every: SOON, ping_timeout: SOON, ..limits() }).await;
    let mut stream = port.connect().await;
    stream.write_all(GREETING).await.unwrap();
    assert!(closed(&mut stream).await);
    port.close().await;
}

#[tokio::test]
async fn one_address_cannot_hold_every_slot_even_with_calls() {
    let port = Port::open(limits()).await;
    let mut polls = Vec::new();
    for _ in 0..CONNECTIONS - 1 {
        let mut worker = WorkflowServiceClient::new(port.channel());
        polls.push(tokio::spawn(async move {
            worker.poll_workflow_task_queue(PollWorkflowTaskQueueRequest::default()).await
        }));
        port.polled.notified().await;
    }
    let mut refused = port.connect().await;
    assert!(closed(&mut refused).await, "the last place is for another address");
    port.go.notify_waiters();
    for poll in polls {
        poll.await.unwrap().unwrap();
    }
    port.close().await;
}

#[tokio::test]
async fn a_call_whose_message_does_not_arrive_times_out() {
    let port = Port::open(Limits { message_within: SOON, ..limits() }).await;
    let io = TokioIo::new(port.connect().await);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://{}/any.Service/Rpc", port.address))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(StreamedBody(stream::pending().boxed())))
        .unwrap();
    let response = timeout(TIMEOUT, sender.send_request(request)).await.unwrap().unwrap();
    let status = response.headers().get("grpc-status").unwrap();
    assert_eq!(status, &(tonic::Code::DeadlineExceeded as i32).to_string());
    port.close().await;
}
