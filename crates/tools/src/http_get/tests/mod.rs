//! Fetches from real sockets on this machine.

mod addresses;
mod bodies;
mod outcomes;
mod redirects;

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpListener};
use windlass_core::{
    envelope::{Bounds, FieldIssue, RetryHint, RetryReason, ToolErrorKind},
    schema::coerce_and_validate,
    time::Millis,
};

use super::{HttpGet, HttpGetOptions};
use crate::{
    Tool, ToolFailure, ToolSuccess,
    egress::{
        Lookup,
        peer::{Server, guarded, page, redirect, response},
    },
    fixtures::context,
};

fn options() -> HttpGetOptions {
    HttpGetOptions { allow_private: true, ..HttpGetOptions::default() }
}

async fn get(tool: &HttpGet, url: &str) -> Result<ToolSuccess, ToolFailure> {
    tool.call(context(), json!({"url": url}).into()).await
}

/// Fetches what a server answers first.
async fn fetch(answer: Vec<u8>) -> Result<ToolSuccess, ToolFailure> {
    let server = Server::start(vec![answer]).await;
    get(&HttpGet::new(options()).unwrap(), &server.url("/")).await
}

async fn fetch_result(answer: Vec<u8>) -> Value {
    fetch(answer).await.unwrap().result.to_value()
}

fn address_refused() -> ToolFailure {
    ToolFailure::new(
        ToolErrorKind::PolicyDenied,
        "this host is not on the public internet; only public addresses can be fetched",
    )
}

fn unavailable(message: &str) -> ToolFailure {
    let hint = RetryHint::new(RetryReason::ToolUnavailable);
    ToolFailure::new(ToolErrorKind::ToolUnavailable, message).retryable().with_hint(hint)
}
