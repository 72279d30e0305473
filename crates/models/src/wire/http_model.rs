//! One model call over HTTP: a request, a stream of events, one answer. It is never retried here.

use std::{
    fmt,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::{Stream, StreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use sse_stream::{Sse, SseByteStream};
use tokio::time::timeout;
use windlass_core::envelope::TokenUsage;

use super::{StreamReader, Wire, WireRequest, cut_off};
use crate::{DeltaSink, ErrorClass, Model, ModelError, ModelRequest, ModelResponse};

/// The longest body of an error that is read.
const ERROR_BYTES: usize = 64 * 1024;
/// How long an error's body may take.
const ERROR_PATIENCE: Duration = Duration::from_secs(5);

/// Where a provider is.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Without a slash at the end: `https://api.anthropic.com`.
    pub base_url: String,
    /// Headers of every request. Their values are secret; see [`HeaderValue::set_sensitive`].
    pub headers: HeaderMap,
    /// The header for the key instead of the format's own: `api-key` for Azure.
    pub key_header: Option<HeaderName>,
    /// Added to the URL of every request.
    pub query: Vec<(String, String)>,
    /// How long the provider may send nothing, before the first event and between events.
    pub silence: Duration,
}

/// Models of one provider.
pub struct HttpModel {
    wire: Box<dyn Wire>,
    endpoint: Endpoint,
    client: reqwest::Client,
}

impl HttpModel {
    pub fn new(wire: Box<dyn Wire>, endpoint: Endpoint, client: reqwest::Client) -> Self {
        Self { wire, endpoint, client }
    }

    fn prepare(&self, request: &ModelRequest) -> Result<reqwest::RequestBuilder, ModelError> {
        let WireRequest { path, headers, body } = self.wire.request(request)?;
        let mut sent = self.endpoint.headers.clone();
        sent.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        sent.insert(http::header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        for (name, value) in headers {
            let value = HeaderValue::from_str(&value).map_err(|_| {
                ModelError::invalid_request(format!("the value for the header {name} has characters that HTTP forbids"))
            })?;
            // The config may name another version of the format.
            sent.entry(HeaderName::from_static(name)).or_insert(value);
        }
        if let Some(key) = &request.credentials {
            let (name, before) = self.wire.key_header();
            let (name, before) = match &self.endpoint.key_header {
                Some(name) => (name.clone(), if *name == http::header::AUTHORIZATION { "Bearer " } else { "" }),
                None => (HeaderName::from_static(name), before),
            };
            let mut value = HeaderValue::from_str(&format!("{before}{}", key.expose_secret())).map_err(|_| {
                ModelError::new(ErrorClass::Auth, "the provider's key has characters that HTTP forbids; set it again")
            })?;
            value.set_sensitive(true);
            sent.insert(name, value);
        }
        Ok(self.client.post(self.url(&path)).headers(sent).body(body))
    }

    fn url(&self, path: &str) -> String {
        let Endpoint { base_url, query, .. } = &self.endpoint;
        if query.is_empty() {
            return format!("{base_url}/{path}");
        }
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        let separator = if path.contains('?') { '&' } else { '?' };
        format!("{base_url}/{path}{separator}{query}")
    }

    async fn stream(&self, request: &ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        let silence = self.endpoint.silence;
        let sent = timeout(silence, self.prepare(request)?.send()).await;
        let response = sent.map_err(|_| silent(silence))?.map_err(|error| unreachable(&error))?;
        let status = response.status();
        if !status.is_success() {
            let headers = response.headers().clone();
            let body = timeout(ERROR_PATIENCE, read_up_to(response.bytes_stream(), ERROR_BYTES)).await;
            return Err(self.wire.failure(status.as_u16(), &headers, &body.unwrap_or_default()));
        }
        let mut events = SseByteStream::new(response.bytes_stream());
        let mut reader = self.wire.reader(request);
        let read = read_events(&mut *reader, &mut events, silence, sink).await;
        let usage = reader.usage();
        read.and_then(|()| reader.finish()).map_err(|error| charged(error, usage))
    }
}

/// Feeds the reader until the answer is complete or the stream ends.
async fn read_events<E: std::error::Error + Send + Sync + 'static>(
    reader: &mut dyn StreamReader,
    events: &mut (impl Stream<Item = Result<Sse, E>> + Unpin),
    silence: Duration,
    sink: &mut dyn DeltaSink,
) -> Result<(), ModelError> {
    while !reader.is_complete() {
        let next = timeout(silence, events.next()).await.map_err(|_| silent(silence))?;
        let Some(event) = next else { break };
        let Sse { event: name, data, .. } = event.map_err(|error| broken(&error))?;
        let Some(data) = data else { continue };
        for delta in reader.event(name.as_deref(), &data)? {
            sink.push(delta).await?;
        }
    }
    Ok(())
}

fn charged(mut error: ModelError, usage: TokenUsage) -> ModelError {
    error.usage = Some(Box::new(usage)).filter(|usage| **usage != TokenUsage::default());
    error
}

#[async_trait]
impl Model for HttpModel {
    async fn respond(&self, request: ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        let (cancel, deadline) = (request.cancel.clone(), request.deadline);
        let work = async {
            self.stream(&request, sink).await.map_err(|error| without_key(error, request.credentials.as_ref()))
        };
        let bounded = async {
            match deadline {
                Some(deadline) => {
                    let late =
                        || ModelError::new(ErrorClass::Timeout, "the model call reached the deadline of its attempt");
                    tokio::time::timeout_at(deadline_of(deadline), work).await.map_err(|_| late())?
                }
                None => work.await,
            }
        };
        // Dropping the request closes its connection, so the provider stops generating.
        cancel.run_until_cancelled(bounded).await.unwrap_or_else(|| Err(ModelError::cancelled()))
    }
}

/// Some providers repeat the key in their error. It must not reach a log.
fn without_key(mut error: ModelError, key: Option<&SecretString>) -> ModelError {
    if let Some(key) = key.map(|key| key.expose_secret()).filter(|key| !key.is_empty()) {
        error.message = error.message.replace(key, "[key]");
        error.api_code = error.api_code.map(|code| code.replace(key, "[key]"));
    }
    error
}

fn deadline_of(instant: Instant) -> tokio::time::Instant {
    tokio::time::Instant::from_std(instant)
}

async fn read_up_to<E>(mut stream: impl Stream<Item = Result<bytes::Bytes, E>> + Unpin, limit: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(Ok(piece)) = stream.next().await {
        body.extend_from_slice(&piece[..piece.len().min(limit - body.len())]);
        if body.len() == limit {
            break;
        }
    }
    body
}

fn silent(after: Duration) -> ModelError {
    ModelError::new(ErrorClass::Timeout, format!("the provider sent nothing for {} s", after.as_secs_f64()))
}

/// The request did not reach the provider. The URL is left out: a query may hold a key.
fn unreachable(error: &reqwest::Error) -> ModelError {
    let why = if error.is_connect() { "cannot connect to the provider" } else { "the request to the provider failed" };
    ModelError::new(ErrorClass::Server, format!("{why}: {}", innermost(error)))
}

fn broken(error: &(dyn std::error::Error + 'static)) -> ModelError {
    let mut cut = cut_off();
    cut.message = format!("{}: {}", cut.message, innermost(error));
    cut
}

/// The error at the end of the chain, which names the cause without the URL.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel").field("base_url", &self.endpoint.base_url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_the_provider_repeats_is_not_in_the_error() {
        let key = SecretString::from("sk-live-1234");
        let said = ModelError::new(ErrorClass::Auth, "Incorrect key sk-live-1234: see sk-live-1234.")
            .with_api_code("sk-live-1234");
        let shown = without_key(said.clone(), Some(&key));
        assert_eq!(shown.message, "Incorrect key [key]: see [key].");
        assert_eq!(shown.api_code.as_deref(), Some("[key]"));
        assert_eq!(without_key(said.clone(), None), said);
    }
}
