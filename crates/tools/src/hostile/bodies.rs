//! Responses that are too large, too slow, or not what they say.

use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::{HttpAccess, OAuthClient},
    secret::SecretRef,
};

use super::*;
use crate::{CallContext, openapi::fetch};

const MIB: usize = 1024 * 1024;
const STREAM: usize = 100 * MIB;

/// A server that sends a head and then the piece again and again, until the client hangs up or 100 MiB are sent. It
/// returns how much it could send.
async fn endless(head: &'static str, piece: &'static [u8]) -> (String, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let sending = tokio::spawn(async move {
        let mut socket = accepted(&listener).await;
        if socket.write_all(head.as_bytes()).await.is_err() {
            return 0;
        }
        let mut sent = 0;
        while sent < STREAM && socket.write_all(piece).await.is_ok() {
            sent += piece.len();
        }
        sent
    });
    (url, sending)
}

async fn accepted(listener: &TcpListener) -> TcpStream {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.unwrap());
    }
    socket
}

const CHUNK: &[u8] = &[b'x'; 64 * 1024];
/// What the sockets of both sides may hold beside what was read.
const IN_FLIGHT: usize = 24 * MIB;

#[tokio::test]
async fn an_endless_response_is_cut_at_the_limit_without_being_buffered() {
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 104857600\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n",
    ] {
        let (url, sending) = endless(head, CHUNK).await;
        let bounds = call(&only_local(), &url).await.unwrap().bounds.unwrap();
        assert_eq!((bounds.returned, bounds.truncated), (4 * MIB as u64, true));
        let sent = sending.await.unwrap();
        assert!(sent < 4 * MIB + IN_FLIGHT, "{sent} bytes of {STREAM} were taken");
    }
    println!("hostile: 3 streams of {STREAM} bytes were cut");
}

#[tokio::test]
async fn what_is_not_a_result_is_cut_even_earlier() {
    for (head, piece) in [
        ("HTTP/1.1 500 X\r\nContent-Type: text/plain\r\n\r\n", CHUNK),
        ("HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\n\r\n", CHUNK),
        ("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", CHUNK),
        ("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", CHUNK),
        ("HTTP/1.1 200 OK\r\n", b"X-Header: 0123456789012345678901234567890123456789\r\n"),
        ("HTTP/1.1 302 Found\r\nLocation: /next\r\n\r\n", CHUNK),
        ("", CHUNK),
    ] {
        let (url, sending) = endless(head, piece).await;
        assert!(call(&only_local(), &url).await.is_err(), "{head}");
        let sent = sending.await.unwrap();
        assert!(sent < 4 * MIB + IN_FLIGHT, "{head}: {sent} bytes of {STREAM} were taken");
    }
    println!("hostile: 7 endless responses ended as failures");
}

#[tokio::test]
async fn documents_and_tokens_have_limits_of_their_own() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
    let secrets = context().secrets;

    let (url, sending) = endless(head, CHUNK).await;
    let source = OpenApiSource { url: Some(url), ..OpenApiSource::default() };
    let failure = fetch(&only_local(), &source, &*secrets, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(failure.error.message, "the OpenAPI document has more than 8388608 bytes; use a smaller one");
    assert!(sending.await.unwrap() < 8 * MIB + IN_FLIGHT);

    let (token_url, sending) = endless(head, CHUNK).await;
    let client_secret = SecretRef::Env("NONE".into());
    let oauth = OAuthClient { token_url: Some(token_url), client_id: "c".into(), client_secret, scope: None };
    let access = HttpAccess { oauth: Some(oauth), ..HttpAccess::default() };
    struct Empty;
    #[async_trait]
    impl crate::SecretSource for Empty {
        async fn secret(&self, _: &SecretRef) -> Result<secrecy::SecretString, ToolFailure> {
            Ok("".into())
        }
    }
    let failure = only_local().headers(&access, &Empty).await.unwrap_err();
    assert_eq!(failure.error.message, "the OAuth server gave no bearer token; check tokenUrl in the tool's definition");
    assert!(sending.await.unwrap() < MIB + IN_FLIGHT);
}

#[tokio::test]
async fn odd_bodies_become_text_or_failures() {
    let deep = [vec![b'['; 200_000], vec![b']'; 200_000]].concat();
    let cases: [(&str, &[u8], bool); 9] = [
        ("text/plain", b"\xff\xfe\xc0\x80\xed\xa0\x80", true),
        ("application/json", b"{\"a\":\"\xff\"}", true),
        ("application/json", &deep, true),
        ("application/json", b"{\"a\":1,\"a\":2}", true),
        ("application/json", b"\"\\ud800\"", true),
        ("application/json", b"1e999999", true),
        ("text/plain; charset=utf-16", b"\x00\xd8\x00", true),
        ("text/plain; charset=x-none", b"x", false),
        ("text/plain\x01", b"x", false),
    ];
    for (content_type, body, readable) in &cases {
        let server = Server::start(vec![page(content_type, body)]).await;
        assert_eq!(call(&only_local(), &server.url("/")).await.is_ok(), *readable, "{content_type}");
    }
    println!("hostile: {} odd bodies", cases.len());
}

#[tokio::test]
async fn a_body_byte_by_byte_is_read_and_an_endless_drip_ends_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let dripping = tokio::spawn(async move {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n[1,2,3]";
        let mut socket = accepted(&listener).await;
        socket.set_nodelay(true).unwrap();
        for byte in answer {
            socket.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut socket = accepted(&listener).await;
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n").await.unwrap();
        while socket.write_all(b"x").await.is_ok() {
            ticks.tick().await;
        }
    });
    assert_eq!(call(&only_local(), &url).await.unwrap().result, json!([1, 2, 3]));
    let source = HttpSource { url, ..HttpSource::default() };
    let context = CallContext { deadline: Some(Instant::now() + Duration::from_millis(200)), ..context() };
    let outcome = HttpTools::new(only_local()).call(&source, true, &context, &json!({}).into()).await;
    assert_eq!(outcome.unwrap_err().error.kind, ToolErrorKind::Timeout);
    dripping.await.unwrap();
}
