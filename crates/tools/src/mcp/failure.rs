//! What went wrong at an MCP server, in words for the model. Addresses, arguments and headers stay out of them: they may
//! contain secrets.

use std::error::Error;

use rmcp::{
    model::{ErrorCode, ErrorData},
    service::{ClientInitializeError, ServiceError},
    transport::{DynamicTransportError, streamable_http_client::StreamableHttpError},
};
use windlass_core::envelope::{RetryHint, RetryReason, ToolErrorKind};

use crate::ToolFailure;

/// The longest part of a server's own words that a failure about the connection has.
const QUOTED_CHARS: usize = 200;

pub(super) fn cancelled() -> ToolFailure {
    ToolFailure::new(ToolErrorKind::Cancelled, "the call was cancelled")
}

pub(super) fn timed_out() -> ToolFailure {
    ToolFailure::new(ToolErrorKind::Timeout, "the MCP server took too long to answer")
        .retryable()
        .with_hint(RetryHint::new(RetryReason::Timeout))
}

/// The server cannot be reached now.
pub(super) fn unavailable(message: impl Into<String>) -> ToolFailure {
    unusable(message).retryable().with_hint(RetryHint::new(RetryReason::ToolUnavailable))
}

/// The server cannot be reached, and another attempt will not help.
pub(super) fn unusable(message: impl Into<String>) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::ToolUnavailable, message)
}

pub(super) fn failed(message: impl Into<String>) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::ToolFailed, message)
}

/// A request without a result.
pub(super) fn of_request(error: &ServiceError) -> ToolFailure {
    match error {
        ServiceError::McpError(error) => of_json_rpc(error),
        ServiceError::TransportSend(error) => of_transport(error),
        ServiceError::UnexpectedResponse => failed("the MCP server answered with something that is no result"),
        ServiceError::Timeout { .. } => timed_out(),
        ServiceError::Cancelled { .. } => cancelled(),
        _ => unavailable("the MCP server closed the connection before it answered"),
    }
}

fn of_json_rpc(error: &ErrorData) -> ToolFailure {
    let kind = match error.code {
        ErrorCode::INVALID_PARAMS => ToolErrorKind::ToolInputInvalid,
        _ => ToolErrorKind::ToolFailed,
    };
    ToolFailure::new(kind, format!("the MCP server refused the request ({}): {}", error.code.0, error.message))
}

/// A connection that could not be set up.
pub(super) fn of_start(error: &ClientInitializeError) -> ToolFailure {
    match error {
        ClientInitializeError::TransportError { error, .. } => of_transport(error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_start(fallback),
        ClientInitializeError::ConnectionClosed(_) => {
            unavailable("the MCP server closed the connection during the handshake")
        }
        ClientInitializeError::Cancelled => unavailable("the connection to the MCP server was closed"),
        ClientInitializeError::JsonRpcError(error) => {
            let said = quoted(&error.message);
            unusable(format!("the MCP server refused the handshake ({}): {said}", error.code.0))
        }
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let revisions: Vec<&str> = server_supported.iter().map(|version| version.as_str()).collect();
            let revisions = quoted(&revisions.join(", "));
            unusable(format!("the MCP server offers only revisions of the protocol that are not known: {revisions}"))
        }
        _ => unusable("the server does not answer the handshake as MCP says; check its address or command"),
    }
}

fn of_transport(error: &DynamicTransportError) -> ToolFailure {
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(error) => of_http(error),
        None => unavailable("the connection to the MCP server is broken"),
    }
}

fn of_http(error: &StreamableHttpError<reqwest::Error>) -> ToolFailure {
    match error {
        StreamableHttpError::Client(error) => of_connection(error),
        StreamableHttpError::HttpStatus(status) if status.status == 429 => {
            ToolFailure::new(ToolErrorKind::RateLimited, "the MCP server limits how often it is asked (429)")
                .retryable()
                .with_hint(RetryHint::new(RetryReason::RateLimited))
        }
        StreamableHttpError::HttpStatus(status) => {
            unavailable(format!("the MCP server is not available now ({})", status.status))
        }
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
            unusable("the MCP server refused the credentials; check the headers of its configuration")
        }
        StreamableHttpError::UnexpectedServerResponse(said) => {
            unusable(format!("the MCP server answered with something else than MCP: {}", quoted(said)))
        }
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = quoted(kind.as_deref().unwrap_or("no content type"));
            unusable(format!("the MCP server answered with something else than MCP: {kind}"))
        }
        StreamableHttpError::ReservedHeaderConflict(name) => {
            unusable(format!("the header {name} is set by the protocol; remove it from the server's configuration"))
        }
        StreamableHttpError::Io(error) => {
            unavailable(format!("the MCP server is not available now: {}", quoted(&error.to_string())))
        }
        _ => unavailable("the connection to the MCP server broke off"),
    }
}

/// Below HTTP. The innermost cause does not quote the address.
fn of_connection(error: &reqwest::Error) -> ToolFailure {
    let mut cause: &dyn Error = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    let cause = if error.source().is_some() { format!(": {}", quoted(&cause.to_string())) } else { String::new() };
    if error.is_connect() {
        unavailable(format!("the MCP server cannot be connected to{cause}"))
    } else if error.is_timeout() {
        timed_out()
    } else {
        unavailable(format!("the connection to the MCP server broke off{cause}"))
    }
}

fn quoted(said: &str) -> String {
    said.chars().take(QUOTED_CHARS).collect()
}
