//! Errors of OpenAI and of servers that speak its formats, before an answer and inside of one.

use http::HeaderMap;
use serde_json::Value;

use crate::{
    ErrorClass, ModelError,
    wire::{Failure, classify},
};

/// What a server says about an error, wherever it has put it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    code: Option<String>,
    kind: Option<String>,
    message: Option<String>,
    param: Option<String>,
}

/// The error of a response that is no success.
pub(crate) fn failure(status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let said = serde_json::from_slice(body).map(|body: Value| said(&body)).unwrap_or_default();
    error_of(status, headers, said)
}

/// The error of an event inside a stream that has begun well.
pub(crate) fn failed_in_stream(event: &Value) -> ModelError {
    let said = said(event);
    // OpenRouter has the status of the server behind it as the code.
    if let Some(status) =
        said.code.as_deref().and_then(|code| code.parse().ok()).filter(|code| (400..600).contains(code))
    {
        return error_of(status, &HeaderMap::new(), said);
    }
    let class = class_of(&said, None).unwrap_or(ErrorClass::Server);
    let Said { code, kind, message, .. } = shown(said, class);
    let code = code.or(kind);
    let message = match (message, &code) {
        (Some(message), _) => format!("the provider stopped its answer with an error: {}", cut(&message)),
        (None, Some(code)) => format!("the provider stopped its answer with the error {code}"),
        (None, None) => "the provider stopped its answer with an error".to_owned(),
    };
    let mut error = ModelError::new(class, message);
    if code.as_deref().is_some_and(is_quota) {
        error.retryable = false;
    }
    error.api_code = code;
    error
}

fn error_of(status: u16, headers: &HeaderMap, said: Said) -> ModelError {
    let out_of_credit = status == 402 || [&said.code, &said.kind].into_iter().flatten().any(|code| is_quota(code));
    let class = if out_of_credit { Some(ErrorClass::RateLimit) } else { class_of(&said, Some(status)) };
    let auth = class == Some(ErrorClass::Auth) || matches!(status, 401 | 403);
    let Said { code, kind, message, .. } = shown(said, if auth { ErrorClass::Auth } else { ErrorClass::Unknown });
    let mut error = classify(status, headers, Failure { code: code.or(kind), message }, class);
    if out_of_credit {
        error.retryable = false;
    }
    error
}

/// Servers quote the key in the message of a refused key; that message is not shown.
fn shown(mut said: Said, class: ErrorClass) -> Said {
    if class == ErrorClass::Auth {
        said.message = None;
    }
    said
}

fn cut(message: &str) -> String {
    message.chars().take(300).collect()
}

fn said(body: &Value) -> Said {
    let body = match body {
        // Gemini's endpoint puts the error into a list.
        Value::Array(list) => list.first().unwrap_or(&Value::Null),
        body => body,
    };
    match (&body["error"], &body["detail"]) {
        (Value::String(message), _) => Said { message: Some(message.clone()), ..Said::default() },
        (error @ Value::Object(_), _) => said_in(error),
        (_, Value::String(message)) => Said { message: Some(message.clone()), ..Said::default() },
        (_, Value::Array(problems)) => {
            let message = problems.iter().filter_map(|problem| problem["msg"].as_str()).collect::<Vec<_>>().join("; ");
            Said { message: Some(message), ..Said::default() }
        }
        _ => said_in(body),
    }
}

fn said_in(error: &Value) -> Said {
    let text = |name: &str| match &error[name] {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    // An event of Responses has the type of the event here, which says nothing.
    let kind = text("type").filter(|kind| kind != "error");
    Said { code: text("code"), kind, message: text("message"), param: text("param") }
}

/// Codes of an account that has no credit left. Waiting does not help.
fn is_quota(code: &str) -> bool {
    matches!(code, "insufficient_quota" | "billing_hard_limit_reached" | "billing_not_active" | "insufficient_credits")
}

fn class_of(said: &Said, status: Option<u16>) -> Option<ErrorClass> {
    let by_code = [&said.code, &said.kind].into_iter().flatten().find_map(|code| class_of_code(code));
    by_code.or_else(|| {
        let message = said.message.as_deref().unwrap_or_default();
        let is_request = status.is_none_or(|status| matches!(status, 400 | 422));
        if is_request && says_too_long(message) {
            Some(ErrorClass::ContextWindow)
        } else if is_request && refuses_schema(said.param.as_deref().unwrap_or_default(), message) {
            Some(ErrorClass::StructuredOutputSchemaRejected)
        } else {
            None
        }
    })
}

fn class_of_code(code: &str) -> Option<ErrorClass> {
    Some(match code {
        "context_length_exceeded" | "exceed_context_size_error" => ErrorClass::ContextWindow,
        "invalid_json_schema" => ErrorClass::StructuredOutputSchemaRejected,
        "rate_limit_exceeded" | "rate_limit_error" | "tokens" | "requests" => ErrorClass::RateLimit,
        code if is_quota(code) => ErrorClass::RateLimit,
        "overloaded" | "overloaded_error" | "server_overloaded" | "server_is_overloaded" | "slow_down" => {
            ErrorClass::Overloaded
        }
        "server_error" | "internal_error" | "internal_server_error" | "vector_store_timeout" => ErrorClass::Server,
        "invalid_api_key" | "authentication_error" | "permission_error" => ErrorClass::Auth,
        "invalid_prompt"
        | "bio_policy"
        | "misalignment_policy_violation"
        | "data_residency_mismatch"
        | "failed_to_download_image"
        | "empty_image_file" => ErrorClass::InvalidRequest,
        code if code.starts_with("invalid_image") || code.starts_with("image_") => ErrorClass::InvalidRequest,
        "invalid_base64_image" | "unsupported_image_media_type" => ErrorClass::InvalidRequest,
        _ => return None,
    })
}

/// vLLM, Ollama and others have no code for it.
fn says_too_long(message: &str) -> bool {
    let message = message.to_lowercase();
    ["maximum context length", "context window", "exceeds the available context size", "prompt is too long"]
        .iter()
        .any(|words| message.contains(words))
}

fn refuses_schema(param: &str, message: &str) -> bool {
    param.starts_with("response_format")
        || param.starts_with("text.format")
        || message.starts_with("Invalid schema for response_format")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(error: &ModelError) -> (ErrorClass, bool, Option<&str>) {
        (error.class, error.retryable, error.api_code.as_deref())
    }

    #[test]
    fn every_shape_of_error_is_read() {
        use ErrorClass::{
            Auth, ContextWindow, InvalidRequest, Overloaded, RateLimit, Server, StructuredOutputSchemaRejected,
        };
        let openai = |kind: &str, code: Value, param: Value| json!({"error": {"message": "m", "type": kind, "code": code, "param": param}});
        let table = [
            (
                429,
                openai("requests", json!("rate_limit_exceeded"), json!(null)),
                RateLimit,
                true,
                Some("rate_limit_exceeded"),
            ),
            (
                429,
                openai("insufficient_quota", json!("insufficient_quota"), json!(null)),
                RateLimit,
                false,
                Some("insufficient_quota"),
            ),
            (429, openai("insufficient_quota", json!(null), json!(null)), RateLimit, false, Some("insufficient_quota")),
            (402, json!({"error": {"message": "Insufficient Balance", "code": 402}}), RateLimit, false, Some("402")),
            (
                401,
                openai("invalid_request_error", json!("invalid_api_key"), json!(null)),
                Auth,
                false,
                Some("invalid_api_key"),
            ),
            (
                400,
                openai("invalid_request_error", json!("context_length_exceeded"), json!("messages")),
                ContextWindow,
                false,
                Some("context_length_exceeded"),
            ),
            (
                400,
                openai("invalid_request_error", json!("invalid_json_schema"), json!("text.format.schema")),
                StructuredOutputSchemaRejected,
                false,
                Some("invalid_json_schema"),
            ),
            (
                400,
                openai("invalid_request_error", json!(null), json!("response_format")),
                StructuredOutputSchemaRejected,
                false,
                Some("invalid_request_error"),
            ),
            (
                400,
                openai("invalid_request_error", json!("unknown_parameter"), json!("tools[0]")),
                InvalidRequest,
                false,
                Some("unknown_parameter"),
            ),
            (500, openai("server_error", json!(null), json!(null)), Server, true, Some("server_error")),
            (503, openai("server_error", json!("slow_down"), json!(null)), Overloaded, true, Some("slow_down")),
            (404, json!({"error": "model 'x' not found"}), InvalidRequest, false, None),
            (400, json!({"detail": "This model's maximum context length is 8192 tokens."}), ContextWindow, false, None),
            (422, json!({"detail": [{"loc": ["body"], "msg": "field required"}]}), InvalidRequest, false, None),
            (
                400,
                json!({"object": "error", "message": "m", "type": "BadRequestError", "code": 400}),
                InvalidRequest,
                false,
                Some("400"),
            ),
            (
                400,
                json!([{"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT"}}]),
                InvalidRequest,
                false,
                Some("400"),
            ),
            (502, json!("Bad Gateway"), Server, true, None),
        ];
        for (status, body, class, retryable, code) in table {
            let error = failure(status, &HeaderMap::new(), body.to_string().as_bytes());
            assert_eq!((facts(&error), error.api_status), ((class, retryable, code), Some(status)), "{body}");
        }
        let page = failure(502, &HeaderMap::new(), b"<html>");
        assert_eq!((facts(&page), &*page.message), ((Server, true, None), "the provider answered 502"));
    }

    #[test]
    fn errors_inside_a_stream_have_a_class_by_their_code() {
        use ErrorClass::{Auth, ContextWindow, InvalidRequest, RateLimit, Server};
        let table = [
            (json!({"type": "error", "code": "rate_limit_exceeded", "message": "m"}), RateLimit, true, None),
            (json!({"error": {"code": "insufficient_quota", "message": "m"}}), RateLimit, false, None),
            (json!({"error": {"code": "context_length_exceeded"}}), ContextWindow, false, None),
            (json!({"error": {"code": "image_too_large"}}), InvalidRequest, false, None),
            (json!({"error": {"type": "server_error", "message": "m"}}), Server, true, None),
            (json!({"error": {"code": "invalid_api_key", "message": "m"}}), Auth, false, None),
            (json!({"error": "out of memory"}), Server, true, None),
            (json!({"error": {"code": 502, "message": "upstream"}}), Server, true, Some(502)),
            (json!({"error": {"code": 429, "message": "slow"}}), RateLimit, true, Some(429)),
        ];
        for (event, class, retryable, status) in table {
            let error = failed_in_stream(&event);
            assert_eq!((error.class, error.retryable, error.api_status), (class, retryable, status), "{event}");
        }
    }

    #[test]
    fn the_message_about_a_refused_key_is_not_shown() {
        let body = json!({"error": {"message": "Incorrect API key provided: sk-1234", "code": "invalid_api_key"}});
        let refused = failure(401, &HeaderMap::new(), body.to_string().as_bytes());
        assert_eq!(refused.message, "the provider answered 401 (invalid_api_key)");
        assert!(!failed_in_stream(&body).message.contains("sk-1234"));
    }
}
