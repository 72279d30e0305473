//! One request, and the redirects that it may follow.

use reqwest::{
    Method, Response, Url,
    header::{HeaderMap, LOCATION},
};
use windlass_core::envelope::ToolErrorKind;

use super::{Egress, failure};
use crate::ToolFailure;

const MAX_REDIRECTS: usize = 3;

/// A request to a server that a definition or a model names.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// They may hold credentials, so another origin does not get them.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) allow_private: bool,
    /// A second execution of the same request is harmless.
    pub(crate) repeatable: bool,
}

impl Request {
    pub(crate) fn get(url: Url, headers: HeaderMap, allow_private: bool) -> Self {
        Self { method: Method::GET, url, headers, body: None, allow_private, repeatable: true }
    }
}

impl Egress {
    /// The response, whatever its status. Every hop is checked like the first.
    pub(crate) async fn send(&self, request: Request) -> Result<Response, ToolFailure> {
        let Request { method, mut url, mut headers, mut body, allow_private, repeatable } = request;
        let follows = matches!(method, Method::GET | Method::HEAD);
        for _ in 0..=MAX_REDIRECTS {
            self.check(&url, allow_private)?;
            let mut builder = self.client(allow_private).request(method.clone(), url.clone()).headers(headers.clone());
            if let Some(body) = body.take() {
                builder = builder.body(body);
            }
            let response = builder.send().await.map_err(|error| unanswered(&error, repeatable))?;
            let Some(target) = redirect_target(&url, &response)? else { return Ok(response) };
            if !follows {
                let status = response.status().as_u16();
                let message = format!(
                    "the server redirects {method} to another address ({status}), and only GET and HEAD follow \
                     redirects; correct the URL in the tool's definition"
                );
                return Err(failed(message));
            }
            if target.origin() != url.origin() {
                headers.clear();
            }
            url = target;
        }
        Err(failed(format!("the server redirected more than {MAX_REDIRECTS} times")))
    }
}

/// No response came. A request that was sent and must not be repeated may have had its effect.
fn unanswered(error: &reqwest::Error, repeatable: bool) -> ToolFailure {
    if repeatable || error.is_builder() || error.is_dns() || error.is_connect() {
        return failure::of_transport(error);
    }
    let message = "the connection broke off after the request was sent; the server may have executed it";
    ToolFailure::new(ToolErrorKind::OutcomeUnknown, message)
}

/// Where the server sends us instead, if it does.
fn redirect_target(url: &Url, response: &Response) -> Result<Option<Url>, ToolFailure> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
    let target = location.to_str().ok().and_then(|location| url.join(location).ok());
    target.map(Some).ok_or_else(|| failed("the server redirected to something that is no URL"))
}

fn failed(message: impl Into<String>) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::ToolFailed, message)
}
