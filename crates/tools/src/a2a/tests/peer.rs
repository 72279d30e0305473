//! A peer whose answers are scripted. It is a plain HTTP server, so that it can also break the protocol.

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
};

use super::{Dialect, grpc};

/// What a peer answers to one operation, in the words of 1.0.
pub(super) enum Answer {
    Result(Value),
    /// An error with this code of JSON-RPC and this status of HTTP.
    Error(i64, u16, &'static str),
    /// The response as it is on the wire.
    Raw(Vec<u8>),
    /// Events, as they come; the stream ends with the channel.
    Events(mpsc::UnboundedReceiver<Value>),
    /// A result, once the test says so.
    Later(oneshot::Receiver<()>, Value),
    /// No response until the client hangs up.
    Silence,
}

/// A request as the peer saw it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    /// `card`, `send`, `get`, `cancel` or `subscribe`.
    pub(super) operation: &'static str,
    pub(super) headers: Vec<(String, String)>,
    /// The parameters, or the id of the task.
    pub(super) params: Value,
}

pub(super) struct TestPeer {
    pub(super) address: SocketAddr,
    pub(super) dialect: Dialect,
    pub(super) streaming: bool,
    pub(super) card: Value,
    script: Arc<Mutex<Script>>,
    pub(super) seen: mpsc::UnboundedReceiver<Seen>,
}

/// The answers per operation; the last one is given again and again.
#[derive(Default)]
pub(super) struct Script {
    card: Option<Answer>,
    send: VecDeque<Answer>,
    get: VecDeque<Answer>,
    cancel: VecDeque<Answer>,
    subscribe: VecDeque<Answer>,
}

impl TestPeer {
    pub(super) async fn polled(dialect: Dialect) -> Self {
        Self::start(dialect, false).await
    }

    pub(super) async fn streaming(dialect: Dialect) -> Self {
        Self::start(dialect, true).await
    }

    async fn start(dialect: Dialect, streaming: bool) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let url = format!("http://{address}/a2a");
        let card = card(dialect, &url, streaming);
        let script = Arc::new(Mutex::new(Script { card: Some(Answer::Result(card.clone())), ..Script::default() }));
        let (report, seen) = mpsc::unbounded_channel();
        let served = Arc::clone(&script);
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(socket, dialect, Arc::clone(&served), report.clone()));
            }
        });
        Self { address, dialect, streaming, card, script, seen }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn with_card(self, card: Answer) -> Self {
        self.script.lock().unwrap().card = Some(card);
        self
    }

    pub(super) fn on_send(self, answer: Answer) -> Self {
        self.script.lock().unwrap().send.push_back(answer);
        self
    }

    pub(super) fn on_get(self, answer: Answer) -> Self {
        self.script.lock().unwrap().get.push_back(answer);
        self
    }

    pub(super) fn on_cancel(self, answer: Answer) -> Self {
        self.script.lock().unwrap().cancel.push_back(answer);
        self
    }

    pub(super) fn on_subscribe(self, answer: Answer) -> Self {
        self.script.lock().unwrap().subscribe.push_back(answer);
        self
    }

    /// The operations since the last time that this was asked.
    pub(super) fn operations(&mut self) -> Vec<&'static str> {
        std::iter::from_fn(|| self.seen.try_recv().ok()).map(|seen| seen.operation).collect()
    }

    /// The next request of this operation.
    pub(super) async fn next(&mut self, operation: &str) -> Seen {
        loop {
            let seen = self.seen.recv().await.unwrap();
            if seen.operation == operation {
                return seen;
            }
        }
    }
}

pub(super) fn card(dialect: Dialect, url: &str, streaming: bool) -> Value {
    let mut card = json!({
        "name": "Echo",
        "description": "Says it again.",
        "version": "7",
        "capabilities": {"streaming": streaming},
        "skills": [{"id": "echo", "name": "Echo", "description": "Repeats.", "tags": ["text"]}],
    });
    let interface = |binding| json!([{"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}]);
    match dialect {
        Dialect::JsonRpc => card["supportedInterfaces"] = interface("JSONRPC"),
        Dialect::HttpJson => card["supportedInterfaces"] = interface("HTTP+JSON"),
        Dialect::Grpc => card["supportedInterfaces"] = interface("GRPC"),
        Dialect::JsonRpc03 => {
            (card["url"], card["protocolVersion"], card["preferredTransport"]) =
                (json!(url), json!("0.3.0"), json!("JSONRPC"));
        }
    }
    card
}

async fn serve(socket: TcpStream, dialect: Dialect, script: Arc<Mutex<Script>>, report: mpsc::UnboundedSender<Seen>) {
    if dialect == Dialect::Grpc && grpc::is_http2(&socket).await {
        return grpc::serve(socket, script, report).await;
    }
    let mut socket = BufReader::new(socket);
    let Some((line, headers, body)) = read_request(&mut socket).await else { return };
    let seen = understand(dialect, &line, headers, &body);
    let operation = seen.operation;
    let answer = script.lock().unwrap().take(operation);
    let _ = report.send(seen);
    let socket = socket.get_mut();
    let answer = match answer {
        Answer::Later(released, value) => {
            let _ = released.await;
            Answer::Result(value)
        }
        now => now,
    };
    match answer {
        Answer::Later(..) => unreachable!(),
        Answer::Raw(bytes) => {
            let _ = socket.write_all(&bytes).await;
        }
        Answer::Result(value) => {
            let value = if operation == "send" { wrap_sent(value) } else { value };
            let body = in_dialect(dialect, operation, value);
            let _ = socket.write_all(&response("200 OK", "application/json", body.to_string().as_bytes())).await;
        }
        Answer::Error(code, status, message) => {
            let (status, code) = if dialect == Dialect::HttpJson { (status, i64::from(status)) } else { (200, code) };
            let body = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message}}).to_string();
            let _ = socket.write_all(&response(&format!("{status} X"), "application/json", body.as_bytes())).await;
        }
        Answer::Events(mut events) => {
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n";
            let _ = socket.write_all(head.as_bytes()).await;
            while let Some(event) = events.recv().await {
                let data = in_dialect(dialect, "event", event);
                let _ = socket.write_all(format!("data: {data}\r\n\r\n").as_bytes()).await;
            }
        }
        Answer::Silence => {
            let _ = socket.read_u8().await;
        }
    }
}

async fn read_request(socket: &mut BufReader<TcpStream>) -> Option<(String, Vec<(String, String)>, Vec<u8>)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if socket.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers: Vec<_> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, length)| length.parse().unwrap());
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    Some((lines[0].clone(), headers, body))
}

fn understand(dialect: Dialect, line: &str, headers: Vec<(String, String)>, body: &[u8]) -> Seen {
    let (operation, params) = if line.starts_with("GET /.well-known/agent-card.json ") {
        ("card", Value::Null)
    } else if dialect == Dialect::HttpJson {
        let body = serde_json::from_slice(body).unwrap_or_default();
        match line.trim_end_matches(" HTTP/1.1") {
            "POST /a2a/message:send" | "POST /a2a/acme/message:send" => ("send", body),
            "GET /a2a/tasks/t1?historyLength=0" => ("get", json!("t1")),
            "POST /a2a/tasks/t1:cancel" => ("cancel", json!("t1")),
            "GET /a2a/tasks/t1:subscribe" => ("subscribe", json!("t1")),
            other => panic!("{other}"),
        }
    } else {
        assert!(line.starts_with("POST /a2a"), "{line}");
        let body: Value = serde_json::from_slice(body).unwrap();
        let operation = match (dialect, body["method"].as_str().unwrap()) {
            (Dialect::JsonRpc, "SendMessage") | (Dialect::JsonRpc03, "message/send") => "send",
            (Dialect::JsonRpc, "GetTask") | (Dialect::JsonRpc03, "tasks/get") => "get",
            (Dialect::JsonRpc, "CancelTask") | (Dialect::JsonRpc03, "tasks/cancel") => "cancel",
            (Dialect::JsonRpc, "SubscribeToTask") | (Dialect::JsonRpc03, "tasks/resubscribe") => "subscribe",
            other => panic!("{other:?}"),
        };
        let params = &body["params"];
        (operation, if operation == "send" { params.clone() } else { params["id"].clone() })
    };
    Seen { operation, headers, params }
}

impl Script {
    pub(super) fn take(&mut self, operation: &str) -> Answer {
        let answers = match operation {
            "card" => return copy(self.card.as_mut().unwrap()),
            "send" => &mut self.send,
            "get" => &mut self.get,
            "cancel" => &mut self.cancel,
            _ => &mut self.subscribe,
        };
        match answers.len() {
            0 => Answer::Error(-32004, 501, "this peer's script has no answer"),
            1 => copy(&mut answers[0]),
            _ => answers.pop_front().unwrap(),
        }
    }
}

fn copy(answer: &mut Answer) -> Answer {
    match answer {
        Answer::Result(value) => Answer::Result(value.clone()),
        Answer::Error(code, status, message) => Answer::Error(*code, *status, message),
        Answer::Raw(bytes) => Answer::Raw(bytes.clone()),
        Answer::Silence => Answer::Silence,
        // These come once.
        Answer::Events(_) | Answer::Later(..) => {
            std::mem::replace(answer, Answer::Error(-32004, 400, "the stream is over"))
        }
    }
}

pub(super) fn response(status: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\nContent-Type: {content_type}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A task or a message as the result of `SendMessage`.
pub(super) fn wrap_sent(value: Value) -> Value {
    let kind = if value.get("status").is_some() { "task" } else { "message" };
    json!({kind: value})
}

fn in_dialect(dialect: Dialect, operation: &str, value: Value) -> Value {
    match dialect {
        _ if operation == "card" => value,
        Dialect::HttpJson | Dialect::Grpc => value,
        Dialect::JsonRpc => json!({"jsonrpc": "2.0", "id": 1, "result": value}),
        Dialect::JsonRpc03 => json!({"jsonrpc": "2.0", "id": 1, "result": Legacy(value).event()}),
    }
}

/// 1.0 rewritten as 0.3.
pub(super) struct Legacy(pub(super) Value);

impl Legacy {
    /// An event has its kind beside its fields.
    pub(super) fn event(self) -> Value {
        let kinds = [
            ("task", "task"),
            ("message", "message"),
            ("statusUpdate", "status-update"),
            ("artifactUpdate", "artifact-update"),
        ];
        for (field, kind) in kinds {
            if let Some(inner) = self.0.get(field) {
                let mut inner = Self(inner.clone()).fields();
                inner["kind"] = json!(kind);
                return inner;
            }
        }
        let mut task = self.fields();
        task["kind"] = json!("task");
        task
    }

    fn fields(self) -> Value {
        let text = self.0.to_string();
        let mut value: Value =
            serde_json::from_str(&text.replace("ROLE_AGENT", "agent").replace("ROLE_USER", "user")).unwrap();
        if let Some(state) = value["status"]["state"].as_str() {
            value["status"]["state"] = json!(state.trim_start_matches("TASK_STATE_").to_lowercase().replace('_', "-"));
        }
        // Indexing writes `null` where there is nothing.
        if value["status"].is_null() {
            value.as_object_mut().unwrap().remove("status");
        }
        value
    }
}
