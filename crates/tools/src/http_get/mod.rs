//! `http_get`: fetches a public web page or API response.
//!
//! The model chooses the URL, so nothing about it is trusted: only http and https, only addresses of the public internet
//! at every hop, few redirects, a bounded body, a bounded time, no proxy and no credentials from the environment.

mod body;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use async_trait::async_trait;
use reqwest::{Response, StatusCode, Url, header::HeaderMap};
use serde::Deserialize;
use serde_json::json;
use windlass_core::{
    agent::{ToolSource, ToolSpec},
    canonical::CanonicalJson,
    envelope::{RetryReason, ToolErrorKind},
    time::Millis,
};

use crate::{
    CallContext, Egress, EgressError, EgressRules, Tool, ToolFailure, ToolSuccess, args,
    egress::{Request, passing, retry_advice, timed_out},
};

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

/// Fetches URLs.
#[derive(Debug, Clone)]
pub struct HttpGet {
    egress: Egress,
    options: HttpGetOptions,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    url: String,
}

impl HttpGet {
    /// Reaches the public internet, and everything else if the options say so.
    pub fn new(options: HttpGetOptions) -> Result<Self, EgressError> {
        Ok(Self::over(Egress::new(EgressRules::default())?, options))
    }

    pub fn over(egress: Egress, options: HttpGetOptions) -> Self {
        Self { egress, options }
    }

    async fn fetch(&self, url: Url) -> Result<ToolSuccess, ToolFailure> {
        let request = Request::get(url, HeaderMap::new(), self.options.allow_private);
        let response = self.egress.send(request).await?;
        match not_now(&response) {
            Some(failure) => Err(failure),
            None => body::read(response, self.options.max_body_bytes).await,
        }
    }

    /// The URL that the model wrote, if it can be fetched.
    fn url(&self, url: &str) -> Result<Url, ToolFailure> {
        let unusable = |message: &str| args::unusable("url", "format", message);
        let url = Url::parse(url).map_err(|_| unusable("this is not an absolute URL"))?;
        self.egress.check(&url, self.options.allow_private).map_err(|failure| match failure.error.kind {
            ToolErrorKind::PolicyDenied => failure,
            _ => unusable(&failure.error.message),
        })?;
        Ok(url)
    }
}

/// The two statuses of a temporary refusal. Other error pages are results.
fn not_now(response: &Response) -> Option<ToolFailure> {
    let (kind, reason, message) = match response.status() {
        StatusCode::TOO_MANY_REQUESTS => {
            (ToolErrorKind::RateLimited, RetryReason::RateLimited, "the server limits how often it is asked (429)")
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            (ToolErrorKind::ToolUnavailable, RetryReason::ToolUnavailable, "the server is not available now (503)")
        }
        _ => return None,
    };
    Some(passing(kind, reason, message, retry_advice(response.headers())))
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
        let url = self.url(&url)?;
        let left = context.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(self.options.timeout, |left| left.min(self.options.timeout));
        let fetch = tokio::time::timeout(timeout, self.fetch(url));
        match context.cancel.run_until_cancelled(fetch).await {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(timed_out()),
            None => Err(ToolFailure::new(ToolErrorKind::Cancelled, "the fetch was cancelled")),
        }
    }
}
