//! The scripted peer's gRPC, and what only gRPC can get wrong.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpStream, sync::mpsc};
use tonic::Code;
use windlass_a2a_grpc::{Message, Method};

use super::{
    peer::{Script, Seen, wrap_sent},
    *,
};

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Whether a client that connected speaks HTTP/2. Clients send the first bytes at once.
pub(super) async fn is_http2(socket: &TcpStream) -> bool {
    let mut first = [0; 4];
    while socket.peek(&mut first).await.unwrap_or_default() == 1 {}
    first == *b"PRI "
}

pub(super) async fn serve(socket: TcpStream, script: Arc<Mutex<Script>>, report: mpsc::UnboundedSender<Seen>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (script, report) = (Arc::clone(&script), report.clone());
        async move { Ok::<_, Infallible>(answered(request, &script, &report).await) }
    });
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
}

async fn answered(
    request: Request<Incoming>,
    script: &Mutex<Script>,
    report: &mpsc::UnboundedSender<Seen>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let method = Method::named(parts.uri.path().strip_prefix("/lf.a2a.v1.A2AService/").unwrap()).unwrap();
    let body = body.collect().await.unwrap().to_bytes();
    let params = method.request().to_json(&body[5..], 1000).unwrap();
    let operation = match method.name() {
        "SendMessage" => "send",
        "GetTask" => "get",
        "CancelTask" => "cancel",
        _ => "subscribe",
    };
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    let params = if operation == "send" { params } else { params["id"].clone() };
    let answer = script.lock().unwrap().take(operation);
    let _ = report.send(Seen { operation, headers: headers.collect(), params });
    let answer = match answer {
        Answer::Later(released, value) => {
            let _ = released.await;
            Answer::Result(value)
        }
        now => now,
    };
    match answer {
        Answer::Later(..) => unreachable!(),
        Answer::Result(value) => {
            let value = if operation == "send" { wrap_sent(value) } else { value };
            respond(vec![Frame::data(frame(&method.response(), &value)), status(Code::Ok, "")])
        }
        Answer::Error(code, _, message) => respond(vec![status(code_of(code), message)]),
        Answer::Raw(bytes) => respond(vec![Frame::data(bytes.into()), status(Code::Ok, "")]),
        Answer::Events(events) => {
            let schema = method.response();
            let frames = stream::unfold((schema, Some(events)), async |(schema, events)| {
                let mut events = events?;
                let (next, events) = match events.recv().await {
                    Some(event) => (Frame::data(frame(&schema, &event)), Some(events)),
                    None => (status(Code::Ok, ""), None),
                };
                Some((Ok(next), (schema, events)))
            });
            head(StreamBody::new(frames).boxed_unsync())
        }
        Answer::Silence => std::future::pending().await,
    }
}

fn head(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

fn respond(frames: Vec<Frame<Bytes>>) -> Response<Body> {
    head(StreamBody::new(stream::iter(frames.into_iter().map(Ok))).boxed_unsync())
}

fn frame(schema: &Message, value: &Value) -> Bytes {
    let message = schema.to_bytes(value).unwrap();
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap());
    frame.put(message);
    frame.freeze()
}

fn status(code: Code, message: &str) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", i32::from(code).into());
    trailers.insert("grpc-message", HeaderValue::try_from(message).unwrap());
    Frame::trailers(trailers)
}

/// The status of an error of JSON-RPC; smaller numbers are a status already.
fn code_of(code: i64) -> Code {
    match code {
        -32001 => Code::NotFound,
        -32603 => Code::Internal,
        -32768..=-32000 => Code::FailedPrecondition,
        code => Code::from(i32::try_from(code).unwrap()),
    }
}

#[tokio::test]
async fn a_status_says_whether_the_message_may_have_been_accepted() {
    let cases = [
        (
            Code::ResourceExhausted,
            ToolErrorKind::RateLimited,
            true,
            "the peer limits how often it is asked (RESOURCE_EXHAUSTED): no",
        ),
        (Code::Unavailable, ToolErrorKind::ToolUnavailable, true, "the peer is not available now (UNAVAILABLE): no"),
        (
            Code::Internal,
            ToolErrorKind::OutcomeUnknown,
            true,
            "the peer failed (INTERNAL): no; it may have accepted the message and work on it",
        ),
        (
            Code::Unauthenticated,
            ToolErrorKind::ToolFailed,
            false,
            "the peer refused the credentials (UNAUTHENTICATED): no; check the tool's headers and oauth",
        ),
        (
            Code::InvalidArgument,
            ToolErrorKind::ToolFailed,
            false,
            "the peer answered with an error (INVALID_ARGUMENT): no",
        ),
    ];
    for (code, kind, retryable, message) in cases {
        let peer = TestPeer::polled(Dialect::Grpc).await.on_send(Answer::Error(i64::from(i32::from(code)), 0, "no"));
        let failure = Caller::of(&peer).round().await.unwrap_err();
        assert_eq!(failure.error, windlass_core::envelope::ToolError::new(kind, message));
        assert_eq!(failure.retryable, retryable, "{code:?}");
    }
    let mut caller = Caller::of(&TestPeer::polled(Dialect::Grpc).await);
    let gone = json!([{"url": "127.0.0.1:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"}]);
    let peer = TestPeer::polled(Dialect::Grpc).await;
    let mut card = peer.card.clone();
    card["supportedInterfaces"] = gone;
    let peer = peer.with_card(Answer::Result(card));
    caller.source.agent_card_url = peer.url("");
    assert_eq!(caller.round().await.unwrap_err().error.message, "the peer cannot be connected to");
}

#[tokio::test]
async fn a_response_that_is_no_message_has_an_unknown_outcome_or_cannot_be_read() {
    let whole = |message: &[u8]| {
        let mut frame = vec![0];
        frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        frame.extend(message);
        frame
    };
    let unknown = ToolErrorKind::OutcomeUnknown;
    for (raw, kind) in [
        (Vec::new(), unknown),
        (b"HTTP".to_vec(), unknown),
        // A frame that is compressed although nothing says how.
        ([&[1, 0, 0, 0, 1], &b"x"[..]].concat(), unknown),
        // A frame that ends early.
        (vec![0, 0, 0, 0, 9, 1], unknown),
        (whole(b"\xff\xff\xff"), ToolErrorKind::ToolFailed),
        (whole(b""), ToolErrorKind::ToolFailed),
        (whole(&vec![0; 4 * 1024 * 1024 + 1]), ToolErrorKind::ToolFailed),
    ] {
        let peer = TestPeer::polled(Dialect::Grpc).await.on_send(Answer::Raw(raw.clone()));
        let failure = Caller::of(&peer).round().await.unwrap_err();
        assert_eq!(failure.error.kind, kind, "{:?}: {failure:?}", &raw[..raw.len().min(9)]);
    }
}

#[tokio::test]
async fn a_task_in_a_state_that_is_not_known_here_works_on() {
    let mut newer = task("WORKING");
    newer["status"]["state"] = json!(77);
    let peer = TestPeer::polled(Dialect::Grpc)
        .await
        .on_send(Answer::Result(newer.clone()))
        .on_get(Answer::Result(newer))
        .on_get(Answer::Result(completed("hi")));
    assert_eq!(Caller::of(&peer).finish().await, Ok(done("hi")));
}

#[tokio::test]
async fn a_peer_that_repeats_a_secret_is_redacted() {
    let peer = TestPeer::polled(Dialect::Grpc).await.on_send(Answer::Result(completed("it is hunter2hunter2")));
    let mut caller = Caller::of(&peer);
    caller.headers.insert("authorization", "Bearer hunter2hunter2".parse().unwrap());
    assert_eq!(caller.round().await, Ok(done("it is [secret]")));
    let peer = TestPeer::polled(Dialect::Grpc).await.on_send(Answer::Error(3, 0, "hunter2hunter2 is wrong"));
    caller.source.agent_card_url = peer.url("");
    let message = "the peer answered with an error (INVALID_ARGUMENT): [secret] is wrong";
    assert_eq!(caller.round().await, Err(failed(message)));
}

#[tokio::test]
async fn a_tool_may_name_the_binding_that_is_used() {
    let peer = TestPeer::polled(Dialect::Grpc).await.on_send(Answer::Result(completed("hi")));
    let mut card = peer.card.clone();
    let own = card["supportedInterfaces"][0].clone();
    card["supportedInterfaces"] =
        json!([{"url": "http://127.0.0.1:1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}, own]);
    let peer = peer.with_card(Answer::Result(card));
    let mut caller = Caller::of(&peer);
    caller.source.binding = Some("GRPC".to_owned());
    assert_eq!(caller.round().await, Ok(done("hi")));
    caller.source.binding = Some("HTTP+JSON".to_owned());
    let message = "the agent card names JSONRPC 1.0, GRPC 1.0; the tool's `binding` is HTTP+JSON";
    assert_eq!(caller.round().await, Err(failed(message)));
}
