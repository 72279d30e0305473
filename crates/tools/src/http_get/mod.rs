//! `http_get`: fetches a public web page or API response.
//!
//! The model chooses the URL, so nothing about it is trusted: only http and https, only addresses of the public internet
//! at every hop, few redirects, a bounded body, a bounded time, no proxy and no credentials from the environment.

mod address;
mod body;
mod failure;
mod resolver;
#[cfg(test)]
mod tests;

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use reqwest::{Client, Response, Url, header::LOCATION, redirect::Policy};
use rustls::crypto::{CryptoProvider, ring};
use serde::Deserialize;
use serde_json::json;
use windlass_core::{
    agent::{ToolSource, ToolSpec},
    canonical::CanonicalJson,
    envelope::ToolErrorKind,
    time::Millis,
};

use self::resolver::{AddressRule, GuardedResolver, Lookup, SystemLookup};
use crate::{CallContext, Tool, ToolFailure, ToolSuccess, args};

const MAX_REDIRECTS: usize = 3;
/// What the activity allows beyond the tool's own timeout, so that the tool can report why it failed.
const TIMEOUT_MARGIN: Millis = Millis::from_secs(10);

/// Limits of `http_get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpGetOptions {
    pub max_body_bytes: usize,
    /// For the whole fetch, redirects included.
    pub timeout: Duration,
    /// Lets the tool reach loopback, private and link-local addresses. For tests and closed networks only.
    pub allow_private: bool,
}

impl Default for HttpGetOptions {
    fn default() -> Self {
        Self { max_body_bytes: 256 * 1024, timeout: Duration::from_secs(20), allow_private: false }
    }
}

/// The HTTP client could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("http_get cannot be set up, check the machine's trusted certificates: {0}")]
pub struct HttpGetError(reqwest::Error);

/// Not a `source`: the message has it already.
impl From<reqwest::Error> for HttpGetError {
    fn from(error: reqwest::Error) -> Self {
        Self(error)
    }
}

/// Fetches URLs.
#[derive(Debug, Clone)]
pub struct HttpGet {
    client: Client,
    options: HttpGetOptions,
    is_allowed: AddressRule,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    url: String,
}

impl HttpGet {
    pub fn new(options: HttpGetOptions) -> Result<Self, HttpGetError> {
        let is_allowed: AddressRule = if options.allow_private { |_| true } else { address::is_public };
        Self::build(options, is_allowed, Arc::new(SystemLookup))
    }

    fn build(options: HttpGetOptions, is_allowed: AddressRule, lookup: Arc<dyn Lookup>) -> Result<Self, HttpGetError> {
        if CryptoProvider::get_default().is_none() {
            // Another task may have set it first; both are equal.
            let _ = ring::default_provider().install_default();
        }
        let client = Client::builder()
            .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .dns_resolver(GuardedResolver { lookup, is_allowed })
            .build()?;
        Ok(Self { client, options, is_allowed })
    }

    async fn fetch(&self, mut url: Url) -> Result<ToolSuccess, ToolFailure> {
        for _ in 0..=MAX_REDIRECTS {
            self.check(&url)?;
            let request = self.client.get(url.clone());
            let response = request.send().await.map_err(|error| failure::of_transport(&error))?;
            match redirect_target(&url, &response)? {
                Some(target) => url = target,
                None => return self.read(response).await,
            }
        }
        let message = format!("the server redirected more than {MAX_REDIRECTS} times");
        Err(ToolFailure::new(ToolErrorKind::ToolFailed, message))
    }

    async fn read(&self, response: Response) -> Result<ToolSuccess, ToolFailure> {
        match failure::of_status(&response) {
            Some(failure) => Err(failure),
            None => body::read(response, self.options.max_body_bytes).await,
        }
    }

    /// What must hold for every hop. Names are checked by the resolver; an address in the URL never gets there.
    fn check(&self, url: &Url) -> Result<(), ToolFailure> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(args::unusable("url", "format", "only http and https URLs can be fetched"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(args::unusable("url", "format", "the URL must not contain a user name or a password"));
        }
        let host = url.host_str().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) if !(self.is_allowed)(address) => Err(failure::address_refused()),
            _ => Ok(()),
        }
    }
}

/// Where the server sends us instead, if it does.
fn redirect_target(url: &Url, response: &Response) -> Result<Option<Url>, ToolFailure> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
    let target = location.to_str().ok().and_then(|location| url.join(location).ok());
    let unreadable =
        || ToolFailure::new(ToolErrorKind::ToolFailed, "the server redirected to something that is no URL");
    target.map(Some).ok_or_else(unreadable)
}

#[async_trait]
impl Tool for HttpGet {
    fn spec(&self) -> ToolSpec {
        let timeout = Millis(u64::try_from(self.options.timeout.as_millis()).unwrap_or(u64::MAX));
        ToolSpec {
            description:
                "Fetches a public http or https URL with GET and returns its status and its text or JSON body."
                    .to_owned(),
            input_schema: Some(json!({
                "type": "object",
                "properties": {
                    "url": {
                        "type": "string",
                        "pattern": "^[hH][tT][tT][pP][sS]?://",
                        "maxLength": 2048,
                        "description": "The absolute URL, for example https://example.com/page.",
                    },
                },
                "required": ["url"],
                "additionalProperties": false,
            })),
            tags: vec!["read".to_owned(), "network".to_owned()],
            timeout_ms: Some(timeout.plus(TIMEOUT_MARGIN)),
            idempotent: true,
            ..ToolSpec::new("http_get".into(), ToolSource::Builtin)
        }
    }

    async fn call(&self, context: CallContext, args: CanonicalJson) -> Result<ToolSuccess, ToolFailure> {
        let Args { url } = args::decode(&args)?;
        let url = Url::parse(&url).map_err(|_| args::unusable("url", "format", "this is not an absolute URL"))?;
        let left = context.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(self.options.timeout, |left| left.min(self.options.timeout));
        let fetch = tokio::time::timeout(timeout, self.fetch(url));
        match context.cancel.run_until_cancelled(fetch).await {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(failure::timed_out()),
            None => Err(failure::cancelled()),
        }
    }
}
