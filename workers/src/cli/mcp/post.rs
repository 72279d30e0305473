//! One message to the MCP endpoint, and the messages of its response.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures_util::StreamExt as _;
use reqwest::{
    RequestBuilder, Response,
    header::{ACCEPT, CONTENT_TYPE},
};
use secrecy::ExposeSecret as _;
use serde_json::Value;

use super::{Place, bridge::Agreed};

const SESSION: &str = "mcp-session-id";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

pub(super) struct Post {
    pub(super) client: reqwest::Client,
    pub(super) place: Place,
}

/// Why there is no response; the sentence is for the client.
#[derive(Debug)]
pub(super) struct Lost(pub(super) String);

impl Post {
    /// Sends a message and passes on every message of the response, with the session that it came with.
    pub(super) async fn exchange(
        &self,
        message: &Value,
        agreed: &Agreed,
        mut say: impl FnMut(&Value, Option<&str>),
    ) -> Result<(), Lost> {
        let address = self
            .place
            .address()
            .ok_or_else(|| Lost("no server runs on this data directory any more; start `windlass dev`".to_owned()))?;
        let url = format!("{}/mcp", address.base_url.trim_end_matches('/'));
        let request = self.client.post(&url).bearer_auth(address.api_key.expose_secret());
        let sent = with_headers(request, message, agreed).body(message.to_string()).send().await;
        let response = sent.map_err(|error| {
            // The error names the URL, and no header.
            Lost(format!("the API server cannot be reached ({error}); check that it runs"))
        })?;
        let session = response.headers().get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            return stream(response, &message["id"], |reply| say(reply, session.as_deref())).await;
        }
        let status = response.status();
        let body = response.bytes().await.map_err(|error| Lost(format!("the response broke off ({error})")))?;
        if body.is_empty() && status.is_success() {
            return Ok(());
        }
        match serde_json::from_slice::<Value>(&body) {
            Ok(reply) if reply["jsonrpc"] == "2.0" => {
                say(&reply, session.as_deref());
                Ok(())
            }
            Ok(refusal) => {
                Err(Lost(refusal["message"].as_str().unwrap_or("the server refused the request").to_owned()))
            }
            Err(_) => Err(Lost(format!("the server answered with status {status} and no message"))),
        }
    }
}

/// The headers that repeat what the message says.
fn with_headers(request: RequestBuilder, message: &Value, agreed: &Agreed) -> RequestBuilder {
    let params = &message["params"];
    let mut request =
        request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json, text/event-stream");
    let version = params["_meta"][VERSION_KEY].as_str().or(agreed.version.as_deref());
    if let Some(version) = version.filter(|version| is_plain(version)) {
        request = request.header("mcp-protocol-version", version);
    }
    if let Some(method) = message["method"].as_str().filter(|method| is_plain(method)) {
        request = request.header("mcp-method", method);
    }
    if let Some(name) = ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str()) {
        request = request.header("mcp-name", header_value(name));
    }
    if let Some(session) = &agreed.session {
        request = request.header(SESSION, session);
    }
    request
}

/// Whether a header can carry the text as it is.
fn is_plain(text: &str) -> bool {
    let sentinel = text.starts_with("=?base64?") && text.ends_with("?=");
    text == text.trim() && text.chars().all(|c| matches!(c, ' '..='~')) && !sentinel
}

fn header_value(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(text)) }
}

/// Passes on the messages of an event stream, to the response with this id.
async fn stream(response: Response, id: &Value, mut say: impl FnMut(&Value)) -> Result<(), Lost> {
    let (mut chunks, mut unread, mut answered) = (response.bytes_stream(), Vec::new(), false);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| broken_off(&error))?;
        unread.extend_from_slice(&chunk);
        // The server writes one line of data per event.
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            let Some(data) = line.strip_prefix(b"data: ") else { continue };
            if let Ok(message) = serde_json::from_slice::<Value>(data) {
                answered |= message["id"] == *id && message.get("method").is_none();
                say(&message);
            }
        }
    }
    if answered { Ok(()) } else { Err(broken_off(&"the stream ended")) }
}

fn broken_off(why: &dyn std::fmt::Display) -> Lost {
    Lost(format!("the connection to the server broke off ({why}); the run may continue, see `windlass runs list`"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers(message: &Value, agreed: &Agreed) -> Vec<(String, String)> {
        let client = crate::service::providers::client().unwrap();
        let request = with_headers(client.post("http://localhost/mcp"), message, agreed).build().unwrap();
        let mcp = request.headers().iter().filter(|(name, _)| name.as_str().starts_with("mcp-"));
        let mut headers: Vec<_> =
            mcp.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        headers.sort();
        headers
    }

    #[test]
    fn headers_repeat_the_message() {
        let call = json!({"id": 1, "method": "tools/call", "params": {"name": "später", "_meta": {VERSION_KEY: "2026-07-28"}}});
        let expected = [
            ("mcp-method", "tools/call"),
            ("mcp-name", "=?base64?c3DDpHRlcg==?="),
            ("mcp-protocol-version", "2026-07-28"),
        ];
        assert_eq!(
            headers(&call, &Agreed::default()),
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        let agreed = Agreed { session: Some("s1".to_owned()), version: Some("2025-11-25".to_owned()) };
        let expected = [("mcp-method", "ping"), ("mcp-protocol-version", "2025-11-25"), ("mcp-session-id", "s1")];
        assert_eq!(
            headers(&json!({"id": 1, "method": "ping"}), &agreed),
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
}
