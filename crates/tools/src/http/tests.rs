//! Calls of endpoints on this machine.

mod outcomes;
mod requests;
mod responses;
mod secrets;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::{Value, json};
use windlass_core::{
    agent::{HttpAccess, HttpSource, OAuthClient},
    envelope::{Bounds, RetryHint, RetryReason, ToolErrorKind},
    message::Part,
    secret::{SecretRef, SecretText},
};

use super::HttpTools;
use crate::{
    CallContext, Egress, EgressRules, SecretSource, ToolFailure, ToolSuccess,
    egress::peer::{Server, listener, page, redirect, response},
    fixtures::context,
};

/// Secrets by name.
struct Known(BTreeMap<&'static str, &'static str>);

#[async_trait]
impl SecretSource for Known {
    async fn secret(&self, reference: &SecretRef) -> Result<SecretString, ToolFailure> {
        let value = self.0.get(reference.name());
        let unknown = || ToolFailure::new(ToolErrorKind::ToolUnavailable, format!("there is no {reference}"));
        value.map(|value| SecretString::from(*value)).ok_or_else(unknown)
    }
}

fn knowing(secrets: &[(&'static str, &'static str)]) -> CallContext {
    CallContext { secrets: Arc::new(Known(secrets.iter().copied().collect())), ..context() }
}

fn tools() -> HttpTools {
    HttpTools::new(Egress::new(EgressRules { allow: vec!["127.0.0.1/32".parse().unwrap()] }).unwrap())
}

fn get(server: &Server, path: &str) -> HttpSource {
    HttpSource { url: server.url(path), ..HttpSource::default() }
}

fn post(server: &Server, path: &str) -> HttpSource {
    HttpSource { method: "POST".into(), ..get(server, path) }
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn headers(pairs: &[(&str, &str)]) -> HttpAccess {
    let headers = pairs.iter().map(|(name, value)| ((*name).to_owned(), SecretText::new(*value))).collect();
    HttpAccess { headers, ..HttpAccess::default() }
}

async fn call(source: &HttpSource, args: Value) -> Result<ToolSuccess, ToolFailure> {
    tools().call(source, false, &context(), &args.into()).await
}

/// What a GET gets of a server that gives this answer.
async fn answered(answer: Vec<u8>) -> Result<ToolSuccess, ToolFailure> {
    let server = Server::start(vec![answer]).await;
    call(&get(&server, "/"), json!({})).await
}

fn ok() -> Vec<u8> {
    page("application/json", b"{}")
}

fn failed(message: &str) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::ToolFailed, message)
}

fn passing(kind: ToolErrorKind, reason: RetryReason, message: &str, advice: Option<&str>) -> ToolFailure {
    let hint = RetryHint { message: advice.map(str::to_owned), ..RetryHint::new(reason) };
    ToolFailure::new(kind, message).retryable().with_hint(hint)
}

/// A header of a request.
fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let head = request.split("\r\n\r\n").next().unwrap();
    let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn body_of(request: &str) -> &str {
    request.split_once("\r\n\r\n").unwrap().1
}
