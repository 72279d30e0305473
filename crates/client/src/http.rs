//! HTTP requests and their responses.

use std::time::Duration;

use reqwest::{
    Method, RequestBuilder, Response, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
    redirect::Policy,
};
use rustls::crypto::{CryptoProvider, ring};
use secrecy::ExposeSecret as _;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Address, Error, Options, Refusal};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The HTTP connection to a workspace of a server.
#[derive(Debug)]
pub(crate) struct Http {
    address: Address,
    client: reqwest::Client,
    workspace: Url,
    timeout: Duration,
}

impl Http {
    pub(crate) fn new(options: &Options, address: &Address) -> Result<Self, Error> {
        let unusable = |what: String| Error::Unusable { what };
        let base = Url::parse(&address.base_url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| unusable(format!("{:?} is not an http or https address", address.base_url)))?;
        let workspace = below(&base, &["api", "v1", "workspaces", &options.workspace]);
        let mut bearer =
            HeaderValue::try_from(format!("Bearer {}", address.api_key.expose_secret())).map_err(|_| {
                unusable(
                    "the API key contains characters that are not allowed in a key; check where it comes from"
                        .to_owned(),
                )
            })?;
        bearer.set_sensitive(true);
        if CryptoProvider::get_default().is_none() {
            // Another thread may have set it first; its value is equivalent.
            let _ = ring::default_provider().install_default();
        }
        let client = reqwest::Client::builder()
            .user_agent(concat!("windlass-client/", env!("CARGO_PKG_VERSION")))
            .default_headers(HeaderMap::from_iter([(AUTHORIZATION, bearer)]))
            // The API key must not be sent to the target of a redirect.
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(options.silence)
            .build()
            .map_err(|error| unusable(innermost(&error)))?;
        Ok(Self { address: address.clone(), client, workspace, timeout: options.timeout })
    }

    pub(crate) fn is_at(&self, address: &Address) -> bool {
        let Address { base_url, api_key } = &self.address;
        *base_url == address.base_url && api_key.expose_secret() == address.api_key.expose_secret()
    }

    /// The server's address for error messages.
    pub(crate) fn origin(&self) -> String {
        self.workspace.origin().ascii_serialization()
    }

    /// The URL of a resource of the workspace.
    pub(crate) fn url(&self, path: &[&str]) -> Url {
        below(&self.workspace, path)
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str], query: &[(&str, String)]) -> Result<T, Error> {
        let mut url = self.url(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.exchange(Method::GET, url, None::<&()>).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<T, Error> {
        self.exchange(Method::POST, self.url(path), Some(body)).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<T, Error> {
        self.exchange(Method::PUT, self.url(path), Some(body)).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Error> {
        self.exchange(Method::DELETE, self.url(path), None::<&()>).await
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        method: Method,
        url: Url,
        body: Option<&impl Serialize>,
    ) -> Result<T, Error> {
        let mut request = self.client.request(method, url.clone()).timeout(self.timeout);
        if let Some(body) = body {
            let body = serde_json::to_vec(body).map_err(|error| Error::Unusable { what: error.to_string() })?;
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let response = answer(&url, request).await?;
        let bytes = response.bytes().await.map_err(|error| unreachable(&url, &error))?;
        let bytes: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        serde_json::from_slice(bytes)
            .map_err(|error| Error::InvalidResponse { url: url.to_string(), reason: error.to_string() })
    }

    /// Opens the stream of server-sent events after a `seq`.
    pub(crate) async fn open(&self, mut url: Url, after: u64) -> Result<Response, Error> {
        let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/event-stream"))]);
        if after > 0 {
            url.query_pairs_mut().append_pair("lastSeq", &after.to_string());
            headers.insert("last-event-id", after.into());
        }
        let response = answer(&url, self.client.get(url.clone()).headers(headers)).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            let reason = format!("the content type is {kind:?}, not text/event-stream");
            return Err(Error::InvalidResponse { url: url.to_string(), reason });
        }
        Ok(response)
    }
}

/// The response if its status is a success, else the server's error.
async fn answer(url: &Url, request: RequestBuilder) -> Result<Response, Error> {
    let response = request.send().await.map_err(|error| unreachable(url, &error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let said = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = said.and_then(|said| said.parse().ok()).map(Duration::from_secs);
    let body = response.bytes().await.unwrap_or_default();
    Err(Error::Refused(Box::new(Refusal::new(status.as_u16(), retry_after, &body))))
}

fn unreachable(url: &Url, error: &reqwest::Error) -> Error {
    Error::Unreachable { url: url.origin().ascii_serialization(), reason: innermost(error), sent: !error.is_connect() }
}

/// The innermost cause: it names the problem, the outer ones only that a request failed.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// Segments are percent-encoded, so that a `/` in one does not add a segment.
fn below(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_key(base: &str, key: &str) -> Result<Http, Error> {
        let options = Options::new(base, key.into(), "acme");
        Http::new(&options, &options.address)
    }

    fn http(base: &str) -> Result<Http, Error> {
        with_key(base, "k")
    }

    #[test]
    fn ids_are_one_segment_each() {
        for base in ["http://h:1", "http://h:1/"] {
            let url = http(base).unwrap().url(&["agent-runs", "run-1/call-0-0", "stream"]);
            assert_eq!(url.as_str(), "http://h:1/api/v1/workspaces/acme/agent-runs/run-1%2Fcall-0-0/stream");
        }
        let behind = http("https://h/windlass/").unwrap().url(&["models"]);
        assert_eq!(behind.as_str(), "https://h/windlass/api/v1/workspaces/acme/models");
    }

    #[test]
    fn invalid_input_is_refused_at_once() {
        for base in ["", "h:1", "ftp://h", "/x"] {
            assert!(matches!(http(base), Err(Error::Unusable { .. })), "{base}");
        }
        let said = with_key("http://h", "a\nb").unwrap_err().to_string();
        let expected =
            "CLT0001: the API key contains characters that are not allowed in a key; check where it comes from";
        assert_eq!(said, expected);
    }
}
