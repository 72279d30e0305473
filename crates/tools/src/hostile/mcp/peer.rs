//! An MCP server over HTTP that answers as a test says, and as the protocol says where the test says nothing.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use windlass_core::{
    agent::{AgentDefinition, ToolSpec},
    ids::ToolName,
};

use super::super::only_local;
use crate::{
    CallContext, ToolFailure, ToolRegistry, ToolReply, Toolbox,
    egress::peer::{listener, page, response},
};

/// What the peer sends for a request.
pub(super) enum Reply {
    Whole(Vec<u8>),
    /// The connection stays open after it.
    Stalling(Vec<u8>),
    /// The head, then the piece again and again, up to 100 MiB.
    Endless(&'static str, &'static [u8]),
}

pub(super) const STREAM: usize = 100 * 1024 * 1024;

pub(super) struct Peer {
    pub(super) url: String,
    pub(super) shared: Arc<Shared>,
}

#[derive(Default)]
pub(super) struct Shared {
    /// The heads of all requests.
    pub(super) heads: Mutex<Vec<String>>,
    /// Bytes of endless replies.
    pub(super) sent: AtomicUsize,
}

type Answers = dyn Fn(&Value) -> Option<Reply> + Send + Sync;

impl Peer {
    pub(super) async fn start(answers: impl Fn(&Value) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let (listener, shared) = (listener().await, Arc::<Shared>::default());
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(accept(listener, Arc::new(answers), Arc::clone(&shared)));
        Self { url, shared }
    }

    /// With this answer to one method.
    pub(super) async fn with(method: &'static str, reply: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(move |message| (message["method"] == method).then(|| reply(message))).await
    }

    /// With this list of tools.
    pub(super) async fn listing(tools: Value) -> Self {
        Self::with("tools/list", move |message| result(message, &json!({"tools": tools}))).await
    }

    fn definition(&self) -> AgentDefinition {
        let tool = json!({"name": "x_t", "kind": "mcp", "mcp": {"toolset": "x", "tool": "t"}});
        let toolset = json!({"name": "x", "mcp": {"url": self.url}, "timeoutMs": 5000});
        serde_json::from_value(json!({"id": "a", "model": "m", "tools": [tool], "toolsets": [toolset]})).unwrap()
    }

    pub(super) async fn list(&self) -> Result<Vec<ToolSpec>, ToolFailure> {
        let definition = self.definition();
        let resolved = toolbox().resolve(&definition.toolsets[0], &*crate::fixtures::context().secrets).await;
        resolved.map(|(tools, _)| tools)
    }

    pub(super) async fn call(&self, context: CallContext) -> Result<ToolReply, ToolFailure> {
        let definition = self.definition();
        let spec = definition.tool(&ToolName::new("x_t")).unwrap();
        toolbox().call(&definition, spec, context, json!({}).into()).await
    }
}

fn toolbox() -> Toolbox {
    Toolbox::new(ToolRegistry::new(), only_local(), Default::default())
}

async fn accept(listener: TcpListener, answers: Arc<Answers>, shared: Arc<Shared>) {
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(serve(socket, Arc::clone(&answers), Arc::clone(&shared)));
    }
}

/// One request; a client that has enough hangs up.
async fn serve(mut socket: TcpStream, answers: Arc<Answers>, shared: Arc<Shared>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    shared.heads.lock().unwrap().push(head);
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    match answers(&message).unwrap_or_else(|| usual(&message)) {
        Reply::Whole(bytes) => socket.write_all(&bytes).await.ok(),
        Reply::Stalling(bytes) => {
            socket.write_all(&bytes).await.ok()?;
            socket.read_u8().await.ok().map(drop)
        }
        Reply::Endless(head, piece) => {
            socket.write_all(head.as_bytes()).await.ok()?;
            let mut sent = 0;
            while sent < STREAM && socket.write_all(piece).await.is_ok() {
                sent += piece.len();
                shared.sent.fetch_add(piece.len(), Ordering::Relaxed);
            }
            Some(())
        }
    }
}

/// What a server of 2025-11-25 answers.
pub(super) fn usual(message: &Value) -> Reply {
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => result(message, &introduction(&json!("2025-11-25"))),
        "tools/list" => result(message, &json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})),
        "tools/call" => result(message, &text("ok")),
        "server/discover" => {
            let error = json!({"code": -32601, "message": "there is no such method"});
            json_reply(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}))
        }
        "" if message.is_null() => Reply::Whole(response("405 Method Not Allowed", "", b"")),
        _ => Reply::Whole(response("202 Accepted", "", b"")),
    }
}

pub(super) fn introduction(version: &Value) -> Value {
    json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"}})
}

pub(super) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

pub(super) fn result(message: &Value, result: &Value) -> Reply {
    json_reply(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

pub(super) fn json_reply(body: &Value) -> Reply {
    Reply::Whole(page("application/json", body.to_string().as_bytes()))
}

/// A stream of these messages, which then ends.
pub(super) fn stream(messages: &[Value]) -> Vec<u8> {
    let events: String = messages.iter().map(|message| format!("data: {message}\n\n")).collect();
    page("text/event-stream", events.as_bytes())
}
