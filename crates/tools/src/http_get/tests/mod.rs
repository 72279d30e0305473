//! Fetches from real sockets on this machine.

mod addresses;
mod bodies;
mod outcomes;
mod redirects;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
};
use windlass_core::{
    envelope::{Bounds, FieldIssue, RetryHint, RetryReason, ToolErrorKind},
    schema::coerce_and_validate,
    time::Millis,
};

use super::{HttpGet, HttpGetOptions, address, resolver::Lookup};
use crate::{Tool, ToolFailure, ToolSuccess, fixtures::context};

/// Answers one connection after the other with raw bytes; the last answer may leave its connection open.
struct Server {
    address: SocketAddr,
    /// The head of each request, once it was answered.
    answered: mpsc::UnboundedReceiver<String>,
}

impl Server {
    async fn start(answers: Vec<Vec<u8>>) -> Self {
        Self::serve(answers, false).await
    }

    async fn that_stalls_after(answer: Vec<u8>) -> Self {
        Self::serve(vec![answer], true).await
    }

    async fn serve(answers: Vec<Vec<u8>>, stalls: bool) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (report, answered) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for answer in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(socket.read_u8().await.unwrap());
                }
                // A client that has read enough hangs up.
                let _ = socket.write_all(&answer).await;
                let _ = report.send(String::from_utf8(head).unwrap());
                if stalls {
                    let _ = socket.read_u8().await;
                }
            }
        });
        Self { address, answered }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn page(content_type: &str, body: &[u8]) -> Vec<u8> {
    response("200 OK", &format!("Content-Type: {content_type}\r\n"), body)
}

fn redirect(target: &str) -> Vec<u8> {
    response("302 Found", &format!("Location: {target}\r\n"), b"")
}

fn options() -> HttpGetOptions {
    HttpGetOptions { allow_private: true, ..HttpGetOptions::default() }
}

async fn get(tool: &HttpGet, url: &str) -> Result<ToolSuccess, ToolFailure> {
    tool.call(context(), json!({"url": url}).into()).await
}

/// Fetches what a server answers first.
async fn fetch(answer: Vec<u8>) -> Result<ToolSuccess, ToolFailure> {
    let server = Server::start(vec![answer]).await;
    get(&HttpGet::new(options()).unwrap(), &server.url("/")).await
}

async fn fetch_result(answer: Vec<u8>) -> Value {
    fetch(answer).await.unwrap().result.to_value()
}

fn address_refused() -> ToolFailure {
    ToolFailure::new(
        ToolErrorKind::PolicyDenied,
        "this host is not on the public internet; only public addresses can be fetched",
    )
}

fn unavailable(message: &str) -> ToolFailure {
    let hint = RetryHint::new(RetryReason::ToolUnavailable);
    ToolFailure::new(ToolErrorKind::ToolUnavailable, message).retryable().with_hint(hint)
}
