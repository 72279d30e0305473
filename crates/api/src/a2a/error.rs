//! Errors of A2A operations, and their form in each binding.

use std::collections::HashMap;

use a2a::{A2AError, FieldViolation, TypedDetail, error_code, error_reason, errordetails::PROTOCOL_DOMAIN};
use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::error::ApiError;

/// Why an operation was refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// An error that the protocol defines.
    Protocol(A2AError),
    /// Authentication, limits and failures of the server, which have an HTTP status in every binding.
    Http(ApiError),
}

pub(crate) type Result<T> = std::result::Result<T, Refusal>;

impl From<A2AError> for Refusal {
    fn from(error: A2AError) -> Self {
        Self::Protocol(error)
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        let ApiError { status, code, message, extra, .. } = &error;
        let field = extra.get("field").and_then(Value::as_str).unwrap_or_default();
        Self::Protocol(match (*status, *code) {
            (StatusCode::BAD_REQUEST, _) if field.ends_with("mimeType") => {
                A2AError::new(error_code::CONTENT_TYPE_NOT_SUPPORTED, message.clone())
            }
            (StatusCode::BAD_REQUEST, _) => about(field, message, message),
            (StatusCode::NOT_FOUND, _) => A2AError::new(error_code::TASK_NOT_FOUND, message.clone()),
            (_, "run_exists") => {
                invalid("message.messageId", "this id was used for another message; send a new message with a new id")
            }
            (_, "session_ended") => invalid("message.contextId", "this context has ended; start another one"),
            (StatusCode::CONFLICT, _) => A2AError::unsupported_operation(message.clone()),
            _ => return Self::Http(error),
        })
    }
}

/// An error about one field of the request.
pub(crate) fn invalid(field: &str, problem: impl Into<String>) -> A2AError {
    let problem = problem.into();
    about(field, &problem, &format!("{field}: {problem}"))
}

fn about(field: &str, problem: &str, message: &str) -> A2AError {
    let violation = FieldViolation { field: field.to_owned(), description: problem.to_owned() };
    A2AError::invalid_params(message).with_details(vec![TypedDetail::bad_request(vec![violation])])
}

impl Refusal {
    /// The error object of JSON-RPC.
    pub(crate) fn json_rpc(self, id: &Value) -> Response {
        let envelope = |error: Value| json!({"jsonrpc": "2.0", "id": id, "error": error});
        match self {
            Self::Protocol(error) => {
                let data = details(&error);
                let body = envelope(json!({"code": error.code, "message": error.message, "data": data}));
                respond(StatusCode::OK, "application/json", &body)
            }
            Self::Http(error) => {
                let code = if error.status.is_server_error() {
                    error_code::INTERNAL_ERROR
                } else {
                    error_code::INVALID_REQUEST
                };
                let body = envelope(json!({"code": code, "message": error.message, "data": []}));
                with_body(error, "application/json", &body)
            }
        }
    }

    /// The error body of the HTTP+JSON binding.
    pub(crate) fn http_json(self) -> Response {
        match self {
            Self::Protocol(error) => {
                let code = error.http_status_code();
                let (status, details) = (status_name(&error), details(&error));
                let body =
                    json!({"error": {"code": code, "status": status, "message": error.message, "details": details}});
                respond(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), MEDIA_TYPE, &body)
            }
            Self::Http(error) => {
                let (code, name) = (error.status.as_u16(), http_status_name(error.status));
                let body = json!({"error": {"code": code, "status": name, "message": error.message, "details": []}});
                with_body(error, MEDIA_TYPE, &body)
            }
        }
    }
}

/// The media type of the HTTP+JSON binding.
pub(crate) const MEDIA_TYPE: &str = "application/a2a+json";

/// What went wrong where, and the protocol's word for the error.
pub(super) fn details(error: &A2AError) -> Vec<TypedDetail> {
    let reason = TypedDetail::error_info(error_reason(error.code), PROTOCOL_DOMAIN, Some(HashMap::new()));
    error.details.iter().flatten().cloned().chain([reason]).collect()
}

/// The gRPC status of an error that has an HTTP status.
pub(super) fn http_status_name(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
        StatusCode::FORBIDDEN => "PERMISSION_DENIED",
        StatusCode::NOT_FOUND => "NOT_FOUND",
        StatusCode::TOO_MANY_REQUESTS => "RESOURCE_EXHAUSTED",
        StatusCode::SERVICE_UNAVAILABLE => "UNAVAILABLE",
        status if status.is_server_error() => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

/// The gRPC status that the protocol assigns to an error.
pub(super) fn status_name(error: &A2AError) -> &'static str {
    match error.code {
        error_code::TASK_NOT_FOUND => "NOT_FOUND",
        error_code::METHOD_NOT_FOUND => "UNIMPLEMENTED",
        error_code::CONTENT_TYPE_NOT_SUPPORTED
        | error_code::PARSE_ERROR
        | error_code::INVALID_REQUEST
        | error_code::INVALID_PARAMS => "INVALID_ARGUMENT",
        code if (error_code::VERSION_NOT_SUPPORTED..=error_code::TASK_NOT_CANCELABLE).contains(&code)
            && code != error_code::INVALID_AGENT_RESPONSE =>
        {
            "FAILED_PRECONDITION"
        }
        _ => "INTERNAL",
    }
}

pub(crate) fn respond(status: StatusCode, media_type: &'static str, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Keeps the status and the headers of the API's own response, such as the challenge and `Retry-After`.
fn with_body(error: ApiError, media_type: &'static str, body: &Value) -> Response {
    let mut response = error.into_response();
    response.headers_mut().remove(header::CONTENT_LENGTH);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    *response.body_mut() = Body::from(body.to_string());
    response
}
