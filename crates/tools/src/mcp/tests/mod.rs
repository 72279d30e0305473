//! The client against servers of both revisions on loopback, and against processes.

mod calls;
mod inputs;
mod lists;
mod processes;
mod results;
mod server;
mod tasks;

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::{
    agent::Toolset,
    envelope::{Continuation, InputAction, InputResponse, Resumption, RetryHint, RetryReason, ToolErrorKind},
};

use self::server::{Revision, Server};
use super::{McpEndpoint, McpServers};
use crate::{CallContext, ToolFailure, ToolReply, ToolSuccess, fixtures::context};

const LONG: Duration = Duration::from_secs(30);

fn toolset() -> Toolset {
    Toolset { name: "t".into(), ..Toolset::default() }
}

async fn call(
    servers: &McpServers,
    endpoint: McpEndpoint,
    tool: &str,
    context: &CallContext,
    args: Value,
) -> Result<ToolReply, ToolFailure> {
    servers.call("key", endpoint, tool, context, &args.into()).await
}

fn done(result: Value) -> Result<ToolReply, ToolFailure> {
    Ok(ToolReply::Done(ToolSuccess::new(result)))
}

fn unavailable(message: &str) -> ToolFailure {
    let hint = RetryHint::new(RetryReason::ToolUnavailable);
    ToolFailure::new(ToolErrorKind::ToolUnavailable, message).retryable().with_hint(hint)
}

fn timed_out() -> ToolFailure {
    let hint = RetryHint::new(RetryReason::Timeout);
    ToolFailure::new(ToolErrorKind::Timeout, "the MCP server took too long to answer").retryable().with_hint(hint)
}

fn failed(message: &str) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::ToolFailed, message)
}
