//! The request that a definition and the model's arguments make.

use reqwest::{
    Method, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
use windlass_core::{agent::HttpSource, canonical::Digest, envelope::ToolErrorKind};

use super::template::{self, Args};
use crate::{
    CallContext, ToolFailure, args,
    egress::{Credentials, header_name},
};

const METHODS: [Method; 6] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The longest key that the usual servers take.
const KEY_CHARS: usize = 255;

/// A request without its credentials.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) method: Method,
    pub(super) url: Url,
    headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
}

impl Parts {
    pub(super) fn of(source: &HttpSource, args: &Args) -> Result<Self, ToolFailure> {
        let method = method(&source.method)?;
        let mut url = template::url(&source.url, args)?;
        for (name, template) in &source.query {
            for value in template::fill_each(template, args) {
                url.query_pairs_mut().append_pair(name, &value);
            }
        }
        let mut headers = HeaderMap::new();
        for (name, template) in &source.header_arguments {
            if let Some(value) = template::fill(template, args) {
                headers.insert(header_name(name)?, header_value(template, &value)?);
            }
        }
        let body = body(source, &method, args).map(|body| body.to_string().into_bytes());
        if body.is_some() {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        }
        Ok(Self { method, url, headers, body })
    }

    /// All headers: credentials are stronger than what arguments say.
    pub(super) fn headers(&self, credentials: &Credentials, context: &CallContext) -> HeaderMap {
        let mut headers = self.headers.clone();
        if !matches!(self.method, Method::GET | Method::HEAD) {
            headers.insert(IDEMPOTENCY_KEY, idempotency_key(context));
        }
        headers.extend(credentials.headers.clone());
        headers
    }
}

/// Call ids repeat from run to run, so the run is a part of the key: without it a server would take a call of one run for
/// a repeat of another run's call.
fn idempotency_key(context: &CallContext) -> HeaderValue {
    let key = format!("{}/{}", context.run_id, context.call_id);
    let digest = || HeaderValue::try_from(Digest::of_bytes(key.as_bytes()).to_string());
    let value = if key.len() > KEY_CHARS { digest() } else { HeaderValue::try_from(&key).or_else(|_| digest()) };
    // A digest is hex digits.
    value.unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn method(name: &str) -> Result<Method, ToolFailure> {
    let name = if name.is_empty() { "GET" } else { name };
    METHODS.into_iter().find(|method| method.as_str().eq_ignore_ascii_case(name)).ok_or_else(|| {
        let message = format!("the method {name:.20?} is not supported; write GET, HEAD, POST, PUT, PATCH or DELETE");
        ToolFailure::new(ToolErrorKind::ToolFailed, message)
    })
}

fn header_value(template: &str, value: &str) -> Result<HeaderValue, ToolFailure> {
    HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
        let name = template::names(template).next().unwrap_or_default();
        let message = format!("the argument {name} must not have line breaks or other control characters");
        args::unusable(name, "pattern", &message)
    })
}

fn body(source: &HttpSource, method: &Method, args: &Args) -> Option<Value> {
    if let Some(name) = &source.body {
        let allowed = !matches!(*method, Method::GET | Method::HEAD);
        return args.get(name).filter(|_| allowed).cloned();
    }
    if !matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
        return None;
    }
    let templates = source.query.values().chain(source.header_arguments.values()).chain([&source.url]);
    let used: Vec<&str> = templates.flat_map(|template| template::names(template)).collect();
    let left = args.iter().filter(|(name, _)| !used.contains(&name.as_str()));
    Some(left.map(|(name, value)| (name.clone(), value.clone())).collect())
}
