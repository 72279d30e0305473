//! HTTP by hand: any bytes can be sent, and a missing response is a result, not a panic.

use std::{io, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::sdk::dev::{KEY, WORKSPACE};

/// Longer than any timeout of the server for a request.
const PATIENCE: Duration = Duration::from_secs(45);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// A caller with a key to one workspace.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) address: String,
    pub(crate) key: String,
    pub(crate) workspace: String,
}

impl Caller {
    /// The caller whose key `windlass dev` was given.
    pub(crate) fn of_dev(address: &str) -> Self {
        Self { address: address.to_owned(), key: KEY.to_owned(), workspace: WORKSPACE.to_owned() }
    }

    pub(crate) async fn get(&self, path: &str) -> io::Result<Answer> {
        self.request("GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> io::Result<Answer> {
        self.request("POST", path, Some(body)).await
    }

    /// `path` is relative to the workspace.
    pub(crate) async fn request(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = self.head(method, path, &[&format!("Content-Length: {}", body.len())]);
        send(&self.address, &[head.as_bytes(), body.as_bytes()].concat()).await
    }

    /// The head of a request with this caller's key.
    pub(crate) fn head(&self, method: &str, path: &str, headers: &[&str]) -> String {
        let (workspace, key) = (&self.workspace, &self.key);
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        format!(
            "{method} /api/v1/workspaces/{workspace}{path} HTTP/1.1\r\nHost: windlass\r\nConnection: close\r\n\
             Authorization: Bearer {key}\r\n{headers}\r\n"
        )
    }
}

/// Sends bytes on a new connection and reads one whole response.
pub(crate) async fn send(address: &str, request: &[u8]) -> io::Result<Answer> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let (mut reader, mut writer) = stream.split();
        // The server may answer before it has read everything; then the rest of the request cannot be written.
        let write = async {
            let _ = writer.write_all(request).await;
        };
        let mut received = Vec::new();
        let read = async { reader.read_to_end(&mut received).await.map(|_| ()) };
        let ((), read) = tokio::join!(write, read);
        // What arrived before the connection broke may be a whole response.
        answer(&received).ok_or_else(|| read.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    };
    timeout(PATIENCE, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn answer(received: &[u8]) -> Option<Answer> {
    let end = received.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&received[..end]).ok()?.to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let body = &received[end + 4..];
    if length.is_some_and(|length| length.parse() != Ok(body.len())) {
        return None;
    }
    let body = serde_json::from_slice(body).unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned().into());
    Some(Answer { status, body })
}
