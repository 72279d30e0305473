//! Plain HTTP/1.1, one connection per request.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// An HTTP client with an API key.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    api: SocketAddr,
    /// Of the workspace's routes.
    base: Arc<str>,
    key: Arc<str>,
}

impl Client {
    pub(crate) fn new(api: SocketAddr, workspace: &str, key: &str) -> Self {
        Self { api, base: format!("/api/v1/workspaces/{workspace}").into(), key: key.into() }
    }

    /// Sends a request; what comes back is the caller's to read.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(self.api).await.context("the API cannot be reached")?;
        stream.set_nodelay(true)?;
        let Self { base, key, .. } = self;
        let request = format!(
            "{method} {base}{path} HTTP/1.1\r\nHost: load\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        Ok(stream)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        self.answer("GET", path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.answer("POST", path, &body.to_string()).await
    }

    async fn answer(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        let mut text = String::new();
        self.send(method, path, body).await?.read_to_string(&mut text).await?;
        let (head, body) = text.split_once("\r\n\r\n").with_context(|| format!("{path}: not an answer: {text:?}"))?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        if !status.starts_with('2') {
            bail!("{method} {path}: {status} {body}");
        }
        serde_json::from_str(body).with_context(|| format!("{path}: {body:?}"))
    }
}
