//! A tiny model provider in this process: it speaks OpenAI's Chat Completions and remembers what it was sent.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;

/// A response of the provider.
pub(super) struct Reply {
    pub(super) status: &'static str,
    pub(super) kind: &'static str,
    pub(super) body: String,
}

pub(super) struct Provider {
    pub(super) base_url: String,
    /// The head and the body of each request.
    requests: Arc<Mutex<Vec<(String, String)>>>,
}

impl Provider {
    /// Answers each request with `reply`, which gets the body.
    pub(super) fn start(reply: impl Fn(&Value) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some((head, body)) = read(&mut stream) else { continue };
                let Reply { status, kind, body: answer } = reply(&serde_json::from_str(&body).unwrap_or_default());
                seen.lock().unwrap().push((head, body));
                let length = answer.len();
                let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
                stream.write_all(format!("{head}{answer}").as_bytes()).unwrap();
            }
        });
        Self { base_url, requests }
    }

    /// What was sent so far.
    pub(super) fn requests(&self) -> Vec<(String, String)> {
        self.requests.lock().unwrap().clone()
    }
}

/// One request; `None` if the connection was closed before it.
fn read(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let header = |line: &str| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned);
            let length = head.lines().find_map(header).map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Some((head.to_owned(), body.to_owned()));
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
        }
    }
}

/// A streamed answer: a text, and a call of a tool without arguments.
pub(super) fn answer(text: &str, call: Option<&str>) -> Reply {
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = serde_json::json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": choices,
        });
        if !usage.is_null() {
            chunk["usage"] = usage;
        }
        format!("data: {chunk}\n\n")
    };
    let delta =
        |delta: Value, finish: Value| serde_json::json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let mut body = chunk(delta(serde_json::json!({"role": "assistant", "content": text}), Value::Null), Value::Null);
    if let Some(name) = call {
        let call = serde_json::json!([
            {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": "{}"}}
        ]);
        body += &chunk(delta(serde_json::json!({"tool_calls": call}), Value::Null), Value::Null);
    }
    let finish = if call.is_some() { "tool_calls" } else { "stop" };
    body += &chunk(delta(serde_json::json!({}), finish.into()), Value::Null);
    let usage = serde_json::json!({"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100});
    body += &chunk(serde_json::json!([]), usage);
    body += "data: [DONE]\n\n";
    Reply { status: "200 OK", kind: "text/event-stream", body }
}
