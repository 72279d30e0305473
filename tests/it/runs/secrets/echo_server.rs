//! A server of HTTP, OpenAPI, A2A, MCP and OAuth that repeats the headers of each request in everything that it answers:
//! results, errors, descriptions of tools, its own name, progress.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
};

use serde_json::{Value, json};

pub(super) struct EchoServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The headers of all requests.
    received: Mutex<String>,
    /// The access token that it issues.
    token: Mutex<String>,
    /// Streams wait before their second event.
    held: Mutex<bool>,
    released: Condvar,
}

struct Request {
    path: String,
    /// All headers, and the credentials of `Authorization` alone.
    echo: String,
    body: Value,
}

impl EchoServer {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let kept = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                // A client may hang up; the next request is another connection.
                std::thread::spawn(move || serve(&stream.unwrap(), address, &kept).ok());
            }
        });
        Self { address, shared }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// From now on it issues this token.
    pub(super) fn issue(&self, token: &str) {
        token.clone_into(&mut self.shared.token.lock().unwrap());
    }

    /// From now on streams stop after their first event, until they are released.
    pub(super) fn hold(&self) {
        *self.shared.held.lock().unwrap() = true;
    }

    pub(super) fn release(&self) {
        *self.shared.held.lock().unwrap() = false;
        self.shared.released.notify_all();
    }

    /// Whether a request had this text in its headers.
    pub(super) fn received(&self, text: &str) -> bool {
        self.shared.received.lock().unwrap().contains(text)
    }
}

/// Answers one request.
fn serve(stream: &TcpStream, address: SocketAddr, shared: &Shared) -> io::Result<()> {
    let Some(request) = read(stream, shared)? else { return Ok(()) };
    let (status, kind, body) = answer(&request, address, &shared.token.lock().unwrap());
    let challenge = format!("WWW-Authenticate: Bearer realm=\"{}\"", request.echo.replace('\n', " "));
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{challenge}\r\nConnection: close\r\n")?;
    if kind != "text/event-stream" {
        return write!(stream, "Content-Length: {}\r\n\r\n{body}", body.len());
    }
    let (first, rest) = body.split_once("\n\n").unwrap();
    write!(stream, "\r\n{first}\n\n")?;
    drop(shared.released.wait_while(shared.held.lock().unwrap(), |held| *held).unwrap());
    stream.write_all(rest.as_bytes())
}

fn read(stream: &TcpStream, shared: &Shared) -> io::Result<Option<Request>> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let Some(path) = first.split(' ').nth(1) else { return Ok(None) };
    let (mut echo, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => echo.push_str(&format!("{name}: {value}\nits credentials: {}\n", last_word(value))),
            _ => echo.push_str(&format!("{name}: {value}\n")),
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    shared.received.lock().unwrap().push_str(&echo);
    Ok(Some(Request { path: path.to_owned(), echo, body: serde_json::from_slice(&body).unwrap_or_default() }))
}

fn last_word(value: &str) -> &str {
    value.rsplit(' ').next().unwrap_or_default()
}

type Reply = (&'static str, &'static str, String);

fn json_reply(body: &Value) -> Reply {
    ("200 OK", "application/json", body.to_string())
}

fn answer(request: &Request, address: SocketAddr, token: &str) -> Reply {
    let Request { path, echo, body } = request;
    match path.split('?').next().unwrap_or_default() {
        "/token" => json_reply(&json!({"access_token": token, "token_type": "bearer", "expires_in": 3600})),
        "/token/refused" => {
            let refusal = json!({"error": "invalid_client", "error_description": echo});
            ("400 Bad Request", "application/json", refusal.to_string())
        }
        "/ok" => json_reply(&json!({"headers": echo})),
        "/text" => ("200 OK", "text/plain", echo.clone()),
        "/openapi.json" => json_reply(&document(echo)),
        "/card" | "/card/failing" | "/card/401" | "/card/500" => json_reply(&card(path, address, echo)),
        "/a2a/card" => json_reply(&a2a(body, echo)),
        "/a2a/card/failing" => {
            json_reply(&json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": echo}}))
        }
        "/mcp" => mcp(body, echo),
        path if path.ends_with("/401") => ("401 Unauthorized", "application/json", json!({"error": echo}).to_string()),
        path if path.ends_with("/403") => ("403 Forbidden", "text/plain", echo.clone()),
        path if path.ends_with("/400") => ("400 Bad Request", "text/plain", echo.clone()),
        _ => ("500 Internal Server Error", "text/plain", echo.clone()),
    }
}

fn document(echo: &str) -> Value {
    let operation = |id: &str| {
        let reply = json!({"200": {"description": echo}});
        json!({"get": {"operationId": id, "summary": echo, "description": echo, "responses": reply}})
    };
    json!({
        "openapi": "3.1.0", "info": {"title": echo, "version": "1", "description": echo},
        "paths": {"/ok": operation("ok"), "/text": operation("text"), "/401": operation("unauthorized"),
                  "/500": operation("broken")},
    })
}

/// Its interface is at the card's path below `/a2a`.
fn card(path: &str, address: SocketAddr, echo: &str) -> Value {
    let interface =
        json!({"url": format!("http://{address}/a2a{path}"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"});
    json!({
        "name": echo, "description": echo, "version": "1", "capabilities": {}, "skills": [],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "supportedInterfaces": [interface],
    })
}

/// A task that works on and says so, and is complete when it is asked for.
fn a2a(body: &Value, echo: &str) -> Value {
    let said = |id: &str| json!({"messageId": id, "role": "ROLE_AGENT", "parts": [{"text": echo}]});
    let task = |state: &str, fields: Value| {
        let status = json!({"state": state, "message": said(state)});
        let mut task = json!({"id": "task-1", "contextId": "context-1", "status": status});
        task.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        task
    };
    let result = match body["method"].as_str().unwrap_or_default() {
        "SendMessage" => json!({"task": task("TASK_STATE_WORKING", json!({}))}),
        _ => {
            let artifact = json!({"artifactId": "1", "parts": [{"text": echo}]});
            task("TASK_STATE_COMPLETED", json!({"artifacts": [artifact]}))
        }
    };
    json!({"jsonrpc": "2.0", "id": body["id"], "result": result})
}

/// A server of revision 2025-11-25 without sessions.
fn mcp(body: &Value, echo: &str) -> Reply {
    let id = &body["id"];
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    let error =
        |code: i64, message: &str| json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    let text = json!([{"type": "text", "text": echo}]);
    let reply = match (body["method"].as_str().unwrap_or_default(), body["params"]["name"].as_str().unwrap_or_default())
    {
        ("initialize", _) => result(json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "instructions": echo,
            "serverInfo": {"name": echo, "version": echo},
        })),
        ("tools/list", _) => {
            let property = json!({"any": {"type": "string", "description": echo}});
            let schema = json!({"type": "object", "properties": property});
            let tool = |name: &str| json!({"name": name, "title": echo, "description": echo, "inputSchema": schema});
            // The name of the last one has the credentials.
            let named = echo.lines().find_map(|line| line.strip_prefix("its credentials: ")).unwrap_or("unnamed");
            result(json!({"tools": [tool("echo"), tool("fail"), tool("refuse"), tool("break"), tool(named)]}))
        }
        ("tools/call", "echo") => {
            let token = &body["params"]["_meta"]["progressToken"];
            let params = json!({"progressToken": token, "progress": 1, "total": 2, "message": echo});
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            let done = result(json!({"content": text, "structuredContent": {"headers": echo}}));
            return ("200 OK", "text/event-stream", format!("data: {progress}\n\ndata: {done}\n\n"));
        }
        ("tools/call", "fail") => result(json!({"content": text, "isError": true})),
        ("tools/call", "refuse") => error(-32602, echo),
        ("tools/call", _) => return ("500 Internal Server Error", "text/plain", echo.to_owned()),
        ("server/discover", _) => error(-32601, echo),
        _ => return ("202 Accepted", "text/plain", String::new()),
    };
    json_reply(&reply)
}
