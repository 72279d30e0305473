//! A model provider in this process that speaks OpenAI's Chat Completions. Its first token is the time at which it writes
//! that token, so each caller knows how long the token took to reach it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::failure::Failure;

/// From the request to the first token. A caller that starts a run has time to open its stream, as with a real model.
const FIRST: Duration = Duration::from_millis(30);
/// Between tokens.
const PACE: Duration = Duration::from_millis(10);
/// Tokens after the first.
const REST: [&str; 3] = [" is", " the", " time."];

/// Serves on a free port of this machine until the process ends. Returns the base URL.
pub(super) async fn serve() -> Result<String, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            // A caller that goes away ends its connection only.
            tokio::spawn(async move { converse(socket).await.ok() });
        }
    });
    Ok(url)
}

/// Nanoseconds on the clock of this machine, which all callers share.
pub(super) fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// The milliseconds since the first token was written, by its text.
pub(super) fn since(token: &str, now: u128) -> Option<f64> {
    let written: u128 = token.parse().ok()?;
    Some(now.saturating_sub(written) as f64 / 1e6)
}

/// Answers the requests of one connection.
async fn converse(socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut socket = BufReader::new(socket);
    while read_request(&mut socket).await? {
        let socket = socket.get_mut();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        socket.write_all(head.as_bytes()).await?;
        tokio::time::sleep(FIRST).await;
        let token = chunk(&delta(json!({"role": "assistant", "content": now().to_string()})));
        socket.write_all(token.as_bytes()).await?;
        for text in REST {
            tokio::time::sleep(PACE).await;
            socket.write_all(chunk(&delta(json!({"content": text}))).as_bytes()).await?;
        }
        let stop = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14});
        let last = [chunk(&event(stop)), chunk(&event(json!({"choices": [], "usage": usage})))].concat();
        socket.write_all(format!("{last}{}0\r\n\r\n", chunked("data: [DONE]\n\n")).as_bytes()).await?;
    }
    Ok(())
}

/// Reads one request to its end. False if there is none.
async fn read_request(socket: &mut BufReader<TcpStream>) -> std::io::Result<bool> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match socket.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) if head.is_empty() => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    let mut body = vec![0; content_length(&String::from_utf8_lossy(&head))];
    socket.read_exact(&mut body).await?;
    Ok(true)
}

fn content_length(head: &str) -> usize {
    let length = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    };
    head.lines().find_map(length).unwrap_or_default()
}

fn delta(delta: Value) -> Value {
    event(json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
}

fn event(mut fields: Value) -> Value {
    if let Some(fields) = fields.as_object_mut() {
        let shared = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "clock"});
        fields.extend(shared.as_object().cloned().unwrap_or_default());
    }
    fields
}

fn chunk(event: &Value) -> String {
    chunked(&format!("data: {event}\n\n"))
}

fn chunked(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_time_at_which_it_was_written() {
        assert_eq!(since("1000000", 3_500_000), Some(2.5));
        assert_eq!(since("2000000", 1_000_000), Some(0.0), "a clock that was set back");
        assert_eq!(since(" is", 1), None);
    }

    #[test]
    fn the_length_of_a_body_is_read_from_the_head() {
        assert_eq!(content_length("POST / HTTP/1.1\r\nContent-Length: 12\r\n\r\n"), 12);
        assert_eq!(content_length("GET / HTTP/1.1\r\nhost: x\r\n\r\n"), 0);
    }
}
