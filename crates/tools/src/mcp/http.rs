//! The HTTP client of a connection.
//!
//! A server that was restarted does not know its sessions any more. By the protocol it answers 404, and the library begins
//! a new session. Many servers answer 400 instead, with an error that has no id, because they did not read the request. The
//! library finds no request for such an error, so without this client the request would wait for its timeout.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        common::client_side_sse::BoxedSseResponse,
        streamable_http_client::{StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse},
    },
};

use super::post::{self, MAX_MESSAGE, Post};

pub(super) type Headers = HashMap<HeaderName, HeaderValue>;
pub(super) type Outcome<T> = Result<T, StreamableHttpError<reqwest::Error>>;

#[derive(Clone)]
pub(super) struct HttpClient {
    pub(super) client: reqwest::Client,
    /// Set when the server may have lost the session: later uses need another connection.
    pub(super) session_lost: Arc<AtomicBool>,
}

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
    ) -> Outcome<StreamableHttpPostResponse> {
        self.post_message_with_max_sse_event_size(uri, message, session, auth, headers, MAX_MESSAGE).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Outcome<StreamableHttpPostResponse> {
        let sent = Sent::of(&message, session.is_some());
        let (session, auth) = (session.as_deref(), auth.as_deref());
        let post = Post { uri: &uri, message: &message, session, auth, headers: &headers };
        self.judge(sent, post::post(&self.client, post, max).await)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: Headers,
    ) -> Outcome<()> {
        self.client.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> Outcome<BoxedSseResponse> {
        self.client.get_stream(uri, session, last_event, auth, headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Outcome<BoxedSseResponse> {
        self.client.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, max).await
    }
}

/// What was posted, as far as it decides what an error without an id means.
#[derive(Clone, Copy)]
enum Sent {
    /// No response is expected.
    Message,
    /// It may have an effect, or there is no session.
    Request { in_session: bool },
    /// It only reads, so the library may repeat it in a new session.
    Reading,
}

impl Sent {
    fn of(message: &ClientJsonRpcMessage, in_session: bool) -> Self {
        match message {
            JsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::ListToolsRequest(_) if in_session => Self::Reading,
                _ => Self::Request { in_session },
            },
            _ => Self::Message,
        }
    }
}

impl HttpClient {
    fn judge(&self, sent: Sent, posted: Outcome<StreamableHttpPostResponse>) -> Outcome<StreamableHttpPostResponse> {
        let error = match &posted {
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), _)) if error.id.is_none() => error,
            _ => return posted,
        };
        match sent {
            Sent::Message => posted,
            Sent::Reading => Err(StreamableHttpError::SessionExpired),
            Sent::Request { in_session } => {
                self.session_lost.fetch_or(in_session, Ordering::AcqRel);
                let said = format!("it refused the request ({}): {}", error.error.code.0, error.error.message);
                Err(StreamableHttpError::Io(io::Error::other(said)))
            }
        }
    }
}
