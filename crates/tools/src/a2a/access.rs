//! Requests to a peer's addresses: which of them get the credentials, and how much of a response is read.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{Stream, StreamExt as _};
use reqwest::{
    Client, Method, RequestBuilder, Response, Url,
    header::{AUTHORIZATION, HeaderMap},
};
use serde::de::DeserializeOwned;
use sse_stream::{Sse, SseByteStream};

use super::{
    failure::{self, Effect, RequestFailure},
    wire::ErrorBody,
};
use crate::ToolFailure;

pub(super) const MAX_RESPONSE: usize = 4 * 1024 * 1024;
pub(super) const MAX_EVENT: usize = 1024 * 1024;
/// What is read of a response that is an error.
const MAX_ERROR: usize = 16 * 1024;
/// Shorter values are not searched for in responses: they would be found everywhere.
const MIN_SECRET: usize = 8;

/// For requests that only read.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) type Check<'a> = &'a (dyn Fn(&Url) -> Result<(), ToolFailure> + Send + Sync);

/// How the peer of one tool is reached.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    pub(super) client: &'a Client,
    /// Speaks HTTP/2 from the first byte.
    pub(super) http2: &'a Client,
    /// Sent to the origin of the card only.
    pub(super) headers: &'a HeaderMap,
    pub(super) check: Check<'a>,
    pub(super) card_url: &'a Url,
}

impl Access<'_> {
    /// Whether the tool's headers may go to this address.
    pub(super) fn may_reach(&self, url: &Url) -> bool {
        self.headers.is_empty() || url.origin() == self.card_url.origin()
    }

    pub(super) fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, ToolFailure> {
        self.request_by(self.client, method, url)
    }

    pub(super) fn http2_request(&self, method: Method, url: Url) -> Result<RequestBuilder, ToolFailure> {
        self.request_by(self.http2, method, url)
    }

    fn request_by(&self, client: &Client, method: Method, url: Url) -> Result<RequestBuilder, ToolFailure> {
        if !self.may_reach(&url) {
            let origin = |url: &Url| url.origin().ascii_serialization();
            return Err(failure::credentials_stay(&origin(&url), &origin(self.card_url)));
        }
        (self.check)(&url)?;
        Ok(client.request(method, url).headers(self.headers.clone()))
    }

    /// The response to a request, if its status is a success.
    pub(super) async fn send(&self, request: RequestBuilder, effect: Effect) -> Result<Response, RequestFailure> {
        let response = request.send().await.map_err(|error| failure::of_transport(&error, effect))?;
        let (status, headers) = (response.status(), response.headers().clone());
        if status.is_success() {
            return Ok(response);
        }
        // An error that cannot be read says nothing beyond its status.
        let body = self.text(response, MAX_ERROR, effect).await.unwrap_or_default();
        let said = serde_json::from_str::<ErrorBody>(&body).map(|body| body.error.message).unwrap_or_default();
        Err(failure::of_status(status, &headers, &said, effect))
    }

    /// The body of a response as JSON. `what` names it in a failure.
    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        response: Response,
        what: &str,
        effect: Effect,
    ) -> Result<T, ToolFailure> {
        let text = self.text(response, MAX_RESPONSE, effect).await?;
        // Left to itself, serde would also take a list of values in the order of the fields.
        let object = text.trim_start().starts_with('{').then(|| serde_json::from_str(&text).ok());
        object.flatten().ok_or_else(|| failure::unreadable(what))
    }

    async fn text(&self, mut response: Response, limit: usize, effect: Effect) -> Result<String, ToolFailure> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failure::of_transport(&error, effect))? {
            if bytes.len() + chunk.len() > limit {
                return Err(failure::failed(format!("the peer's response has more than {limit} bytes")));
            }
            bytes.extend_from_slice(&chunk);
        }
        let text = String::from_utf8(bytes).map_err(|_| failure::unreadable("response"))?;
        Ok(self.without_secrets(text))
    }

    /// The server-sent events of a response, until it breaks off or an event is too long.
    pub(super) fn events(&self, response: Response) -> impl Stream<Item = Sse> + Unpin {
        // Bytes since the last event. A chunk counts for the event that it ends, so this errs on the strict side by at
        // most one chunk.
        let pending = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&pending);
        let bytes = response.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(io::Error::other)?;
            let total = counted.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
            if total > MAX_EVENT { Err(io::Error::other("the event is too long")) } else { Ok(chunk) }
        });
        let events = SseByteStream::new(bytes).map(move |event| {
            pending.store(0, Ordering::Relaxed);
            event.ok()
        });
        let secrets = self.secrets();
        // A stream that broke off is opened again; why it did makes no difference.
        let events = events.take_while(|event| std::future::ready(event.is_some())).filter_map(std::future::ready);
        events.map(move |mut event| {
            event.data = event.data.map(|data| hide(data, &secrets));
            event
        })
    }

    /// The response without the values of secret headers, which a peer may repeat in anything that it says.
    pub(super) fn without_secrets(&self, text: String) -> String {
        hide(text, &self.secrets())
    }

    fn secrets(&self) -> Vec<String> {
        let secret = self.headers.iter().filter(|(name, value)| value.is_sensitive() || **name == AUTHORIZATION);
        let values = secret.filter_map(|(_, value)| value.to_str().ok());
        // `Bearer x` is also recognised by its `x`.
        let values = values.flat_map(|value| [Some(value), value.split_once(' ').map(|(_, token)| token)]);
        values.flatten().filter(|value| value.len() >= MIN_SECRET).map(str::to_owned).collect()
    }
}

fn hide(mut text: String, secrets: &[String]) -> String {
    for secret in secrets {
        if text.contains(secret.as_str()) {
            text = text.replace(secret.as_str(), "[secret]");
        }
    }
    text
}
