//! What the errors of the Messages API mean: those of a response, and those inside a stream.

use http::HeaderMap;
use serde::Deserialize;

use crate::{
    ErrorClass, ModelError,
    wire::{Failure, classify},
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    error: ApiError,
}

/// The `error` of a body or of an `error` event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiError {
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    error_code: Option<String>,
}

/// The longest part of the provider's sentence that an error has.
const SHOWN_CHARS: usize = 300;

pub(super) fn of_response(status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let error = serde_json::from_slice::<ErrorBody>(body).unwrap_or_default().error;
    let verdict = error.verdict();
    let failure = Failure { code: error.code(), message: error.message };
    let failed = classify(status, headers, failure, verdict.map(|verdict| verdict.class));
    let passes = verdict.is_none_or(|verdict| verdict.passes);
    // The API says in a header what its own clients shall do.
    let told = headers.get("x-should-retry").and_then(|told| told.to_str().ok()?.parse::<bool>().ok());
    let retryable = failed.retryable && passes && told != Some(false);
    failed.with_retryable(retryable)
}

/// An `error` event, after the response began with status 200.
pub(super) fn of_event(error: &ApiError) -> ModelError {
    let verdict = error.verdict().unwrap_or_else(|| Verdict::passing(ErrorClass::Server));
    let said = error.message.as_deref().or(error.kind.as_deref()).unwrap_or("it gave no reason").trim();
    let said: String = said.chars().take(SHOWN_CHARS).collect();
    let mut failed = ModelError::new(verdict.class, format!("the provider ended the answer with an error: {said}"));
    failed.retryable &= verdict.passes;
    failed.api_code = error.code();
    failed
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdict {
    class: ErrorClass,
    /// Whether it may be retried if failures of its class are.
    passes: bool,
}

impl Verdict {
    fn passing(class: ErrorClass) -> Self {
        Self { class, passes: true }
    }

    /// No money, or the limit of a month: waiting for it is no use.
    fn spent() -> Self {
        Self { class: ErrorClass::RateLimit, passes: false }
    }
}

impl ApiError {
    /// The narrower of the two codes that an error can have.
    fn code(&self) -> Option<String> {
        self.details.as_ref().and_then(|details| details.error_code.clone()).or_else(|| self.kind.clone())
    }

    /// What the provider's own words mean. `None` leaves it to the status.
    fn verdict(&self) -> Option<Verdict> {
        let details = self.details.as_ref().and_then(|details| details.error_code.as_deref());
        if details == Some("enforced_spend_limit_reached") {
            return Some(Verdict::spent());
        }
        Some(match self.kind.as_deref()? {
            "invalid_request_error" => {
                return invalid_request(self.message.as_deref().unwrap_or_default());
            }
            "authentication_error" | "permission_error" => Verdict::passing(ErrorClass::Auth),
            "billing_error" => Verdict::spent(),
            "not_found_error" => Verdict::passing(ErrorClass::InvalidRequest),
            "request_too_large" => Verdict::passing(ErrorClass::ContextWindow),
            "rate_limit_error" => Verdict::passing(ErrorClass::RateLimit),
            "timeout_error" => Verdict::passing(ErrorClass::UpstreamDeadline),
            "api_error" => Verdict::passing(ErrorClass::Server),
            "overloaded_error" => Verdict::passing(ErrorClass::Overloaded),
            _ => return None,
        })
    }
}

/// One code stands for many causes; only the sentence tells them apart. A sentence that has changed makes it a plain
/// invalid request, which is not retried either.
fn invalid_request(message: &str) -> Option<Verdict> {
    let message = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
    if says(&["prompt is too long", "exceed context limit", "exceeds the context window", "context window exceeded"]) {
        return Some(Verdict::passing(ErrorClass::ContextWindow));
    }
    if says(&["credit balance is too low", "specified api usage limits"]) {
        return Some(Verdict::spent());
    }
    if says(&["output_config.format", "output_format", "schema is too complex", "compiled grammar is too large"]) {
        return Some(Verdict::passing(ErrorClass::StructuredOutputSchemaRejected));
    }
    Some(Verdict::passing(ErrorClass::InvalidRequest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(kind: &str, message: &str) -> Vec<u8> {
        json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn every_error_of_the_api_has_a_class() {
        use ErrorClass::*;
        let long = "prompt is too long: 210000 tokens > 200000 maximum";
        let table = [
            (400, "invalid_request_error", "messages: field required", InvalidRequest, false),
            (400, "invalid_request_error", long, ContextWindow, false),
            (
                400,
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
                ContextWindow,
                false,
            ),
            (400, "invalid_request_error", "Your credit balance is too low to access the API.", RateLimit, false),
            (
                400,
                "invalid_request_error",
                "output_config.format.schema: For 'integer' type, property 'minimum' is not supported",
                StructuredOutputSchemaRejected,
                false,
            ),
            (401, "authentication_error", "invalid x-api-key", Auth, false),
            (402, "billing_error", "", RateLimit, false),
            (403, "permission_error", "", Auth, false),
            (404, "not_found_error", "model: claude-0", InvalidRequest, false),
            (413, "request_too_large", "", ContextWindow, false),
            (429, "rate_limit_error", "", RateLimit, true),
            (500, "api_error", "Internal server error", Server, true),
            (504, "timeout_error", "", UpstreamDeadline, true),
            (529, "overloaded_error", "Overloaded", Overloaded, true),
            (503, "brand_new_error", "", Overloaded, true),
        ];
        for (status, kind, message, class, retryable) in table {
            let error = of_response(status, &HeaderMap::new(), &body(kind, message));
            assert_eq!((error.class, error.retryable), (class, retryable), "{status} {kind} {message}");
            assert_eq!((error.api_status, error.api_code.as_deref()), (Some(status), Some(kind)));
        }
    }

    #[test]
    fn a_spend_limit_is_not_waited_for() {
        let body = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "m",
            "details": {"error_code": "enforced_spend_limit_reached"}}});
        let error = of_response(429, &HeaderMap::new(), body.to_string().as_bytes());
        assert_eq!((error.class, error.retryable), (ErrorClass::RateLimit, false));
        assert_eq!(error.api_code.as_deref(), Some("enforced_spend_limit_reached"));
    }

    #[test]
    fn the_api_can_ask_not_to_retry() {
        let headers = |told: &str| HeaderMap::from_iter([("x-should-retry".parse().unwrap(), told.parse().unwrap())]);
        for (status, told, retryable) in
            [(429, "false", false), (429, "true", true), (400, "true", false), (500, "?", true)]
        {
            let error = of_response(status, &headers(told), b"{}");
            assert_eq!(error.retryable, retryable, "{status} {told}");
        }
    }

    #[test]
    fn a_body_that_is_no_json_leaves_it_to_the_status() {
        let error = of_response(502, &HeaderMap::new(), b"<html>Bad gateway</html>");
        assert_eq!((error.class, error.retryable, error.api_code), (ErrorClass::Server, true, None));
        assert_eq!(error.message, "the provider answered 502");
    }

    #[test]
    fn an_error_inside_a_stream_has_the_same_classes() {
        let table = [
            ("overloaded_error", ErrorClass::Overloaded, true),
            ("rate_limit_error", ErrorClass::RateLimit, true),
            ("api_error", ErrorClass::Server, true),
            ("billing_error", ErrorClass::RateLimit, false),
            ("invalid_request_error", ErrorClass::InvalidRequest, false),
            ("brand_new_error", ErrorClass::Server, true),
        ];
        for (kind, class, retryable) in table {
            let error: ApiError = serde_json::from_value(json!({"type": kind, "message": "x".repeat(999)})).unwrap();
            let failed = of_event(&error);
            assert_eq!((failed.class, failed.retryable), (class, retryable), "{kind}");
            assert_eq!(failed.api_code.as_deref(), Some(kind));
            assert!(failed.message.len() < 400);
        }
    }
}
