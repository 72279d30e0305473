//! The other side of tool calls: an HTTP endpoint and an MCP server, over HTTP and over stdio. They answer at once.

use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use super::work::TOOL;
use crate::failure::Failure;

/// Serves `/lookup` and `/mcp` on a free port of this machine until the process ends. Returns the base URL.
pub(super) async fn serve() -> Result<String, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move { converse(socket).await.ok() });
        }
    });
    Ok(url)
}

/// Answers MCP requests on stdin until it ends. Not async: one request after the other is all that a step needs.
pub(super) fn serve_stdio() -> Result<(), Failure> {
    for line in std::io::stdin().lock().lines() {
        let Ok(request) = serde_json::from_str::<Value>(&line?) else { continue };
        if let Some(reply) = reply(&request) {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{reply}")?;
            out.flush()?;
        }
    }
    Ok(())
}

/// About a kilobyte, as the results of the other measurements.
fn result() -> Value {
    json!({"found": "x".repeat(1000)})
}

/// The answer to a request; notifications have none.
fn reply(request: &Value) -> Option<Value> {
    let id = request.get("id")?;
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "bench", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": TOOL, "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [], "structuredContent": result()}),
        method => {
            let error = json!({"code": -32601, "message": format!("no method {method}")});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

async fn converse(socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut socket = BufReader::new(socket);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if socket.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if first.is_empty() {
                first.clone_from(&line);
            }
            let header = line.trim().to_ascii_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if header.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await?;
        let (status, answer) = match first.split(' ').collect::<Vec<_>>().as_slice() {
            ["GET", "/lookup", ..] => ("200 OK", result().to_string()),
            ["POST", "/mcp", ..] => match reply(&serde_json::from_slice(&body).unwrap_or_default()) {
                Some(reply) => ("200 OK", reply.to_string()),
                None => ("202 Accepted", String::new()),
            },
            _ => ("405 Method Not Allowed", String::new()),
        };
        let kind = if answer.is_empty() { "" } else { "content-type: application/json\r\n" };
        let response = format!("HTTP/1.1 {status}\r\n{kind}content-length: {}\r\n\r\n{answer}", answer.len());
        socket.get_mut().write_all(response.as_bytes()).await?;
    }
}
