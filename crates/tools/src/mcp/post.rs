//! One message to a server by POST, and what it answers.
//!
//! The library's own client reads a JSON body of any length into memory, and repeats bodies of errors in its own. Here a
//! body has a limit, and the values of headers are removed from what is quoted of it.

use std::{
    borrow::Cow,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::StreamExt as _;
use reqwest::{
    Client, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE},
};
use rmcp::{
    ErrorData,
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        common::client_side_sse::BoxedSseResponse,
        streamable_http_client::{
            AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream_of_rmcp::SseStream;

use super::http::{Headers, Outcome};

/// The longest message of a server: a JSON body, an event, a line of a process.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;
/// What is read of a refusal that is no JSON.
const MAX_REFUSAL: usize = 64 * 1024;
const MAX_SESSION_ID: usize = 1024;
const SESSION_ID: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const MAX_VERSION: usize = 64;
/// Headers that the protocol sets.
const RESERVED: [&str; 3] = ["accept", SESSION_ID, "last-event-id"];

pub(super) struct Post<'a> {
    pub(super) uri: &'a str,
    pub(super) message: &'a ClientJsonRpcMessage,
    pub(super) session: Option<&'a str>,
    pub(super) auth: Option<&'a str>,
    pub(super) headers: &'a Headers,
}

pub(super) async fn post(client: &Client, post: Post<'_>, max_event: usize) -> Outcome<StreamableHttpPostResponse> {
    if let Some(name) = post.headers.keys().find(|name| RESERVED.contains(&name.as_str())) {
        return Err(StreamableHttpError::ReservedHeaderConflict(name.to_string()));
    }
    // The server chose it, and every request has it.
    if post.headers.get(&HeaderName::from_static(VERSION)).is_some_and(|version| version.len() > MAX_VERSION) {
        return Err(StreamableHttpError::UnexpectedServerResponse("a version of the protocol that is too long".into()));
    }
    let headers: HeaderMap = post.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut request = client.post(post.uri).header(ACCEPT, "text/event-stream, application/json").headers(headers);
    request = post.auth.into_iter().fold(request, |request, token| request.bearer_auth(token));
    request = post.session.into_iter().fold(request, |request, session| request.header(SESSION_ID, session));
    let body = serde_json::to_vec(post.message)?;
    let response = request.header(CONTENT_TYPE, "application/json").body(body).send().await?;
    let status = response.status();
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if status == StatusCode::NOT_FOUND && post.session.is_some() {
        return Err(StreamableHttpError::SessionExpired);
    }
    if status.is_success() { success(response, &post, max_event).await } else { refusal(response, &post).await }
}

async fn success(response: Response, post: &Post<'_>, max_event: usize) -> Outcome<StreamableHttpPostResponse> {
    let kind = text_of(response.headers(), &CONTENT_TYPE);
    let session = text_of(response.headers(), &HeaderName::from_static(SESSION_ID));
    if session.as_ref().is_some_and(|session| session.len() > MAX_SESSION_ID) {
        let problem = format!("a session id of more than {MAX_SESSION_ID} bytes");
        return Err(StreamableHttpError::UnexpectedServerResponse(problem.into()));
    }
    let expects_answer = matches!(post.message, JsonRpcMessage::Request(_));
    if kind.as_deref().is_some_and(|kind| kind.starts_with("text/event-stream")) {
        return Ok(StreamableHttpPostResponse::Sse(events(response, max_event), session));
    }
    // Some servers accept a notification with an empty body and another status than 202.
    if !expects_answer && response.content_length() == Some(0) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if !kind.as_deref().is_some_and(|kind| kind.starts_with("application/json")) {
        return Err(StreamableHttpError::UnexpectedContentType(kind));
    }
    let body = read(response, MAX_MESSAGE).await?;
    match serde_json::from_slice(&body) {
        Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
        Err(_) if !expects_answer => Ok(StreamableHttpPostResponse::Accepted),
        Err(_) => {
            let said = post.without_credentials(&String::from_utf8_lossy(&body[..body.len().min(MAX_REFUSAL)]));
            Err(StreamableHttpError::UnexpectedServerResponse(Cow::Owned(said)))
        }
    }
}

async fn refusal(response: Response, post: &Post<'_>) -> Outcome<StreamableHttpPostResponse> {
    let status = response.status();
    let challenged = response.headers().contains_key(WWW_AUTHENTICATE);
    match status {
        // The challenge itself may repeat the credentials, and nothing reads it.
        StatusCode::UNAUTHORIZED if challenged => {
            return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new())));
        }
        StatusCode::FORBIDDEN if challenged => {
            return Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(String::new(), None)));
        }
        _ => {}
    }
    let passing = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    let passes = passing.then(|| HttpStatusError::new(status.as_u16(), text_of(response.headers(), &RETRY_AFTER)));
    let is_json = text_of(response.headers(), &CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
    match passes {
        Some(error) if !is_json || status == StatusCode::TOO_MANY_REQUESTS => return Err(error.into()),
        _ => {}
    }
    let session = text_of(response.headers(), &HeaderName::from_static(SESSION_ID));
    let body = read(response, if is_json { MAX_MESSAGE } else { MAX_REFUSAL }).await.unwrap_or_default();
    let error = match serde_json::from_slice(&body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    let is_auth = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let said = || {
        let body = String::from_utf8_lossy(&body[..body.len().min(MAX_REFUSAL)]);
        post.without_credentials(&format!("HTTP {status}: {body}"))
    };
    // An older server refuses the first request of the newest revision in its own way, often with another id. It is asked
    // again by `initialize` if it gets an error with the id of the request.
    if let JsonRpcMessage::Request(request) = post.message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && post.session.is_none()
        && status.is_client_error()
        && !is_auth
    {
        let error = error.map_or_else(|| ErrorData::invalid_request(said(), None), |error| error.error);
        let message = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(message, None));
    }
    match (error, passes) {
        (Some(error), _) if is_json && !is_auth => {
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), session))
        }
        (_, Some(error)) => Err(error.into()),
        _ => Err(StreamableHttpError::UnexpectedServerResponse(Cow::Owned(said()))),
    }
}

impl Post<'_> {
    /// A text of the server without what it got in headers.
    fn without_credentials(&self, said: &str) -> String {
        let sensitive = self.headers.values().filter(|value| value.is_sensitive());
        let values = sensitive.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
        values.fold(said.to_owned(), |said, value| {
            let credentials = value.rsplit(' ').next().unwrap_or_default();
            [value, credentials]
                .iter()
                .filter(|value| !value.is_empty())
                .fold(said, |said, value| said.replace(value, "[redacted]"))
        })
    }
}

/// The body, or an error if it is longer than the limit. What is beyond the limit is not read.
async fn read(mut response: Response, limit: usize) -> Outcome<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            let problem = format!("its answer has more than {limit} bytes");
            return Err(StreamableHttpError::Io(io::Error::other(problem)));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The events of a response. An event that is too long ends them.
fn events(response: Response, max_event: usize) -> BoxedSseResponse {
    // Bytes since the last event. A chunk counts for the event that it ends.
    let pending = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pending);
    let bytes = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        let total = counted.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
        if total > max_event { Err(io::Error::other("the event is too long")) } else { Ok(chunk) }
    });
    let events = SseStream::from_bytes_stream(bytes);
    events.inspect(move |_| pending.store(0, Ordering::Relaxed)).boxed()
}

fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}
