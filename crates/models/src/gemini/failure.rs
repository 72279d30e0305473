//! What Gemini's errors mean: `{"error": {"code", "message", "status", "details"}}`, in a response or in the stream.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    ErrorClass, ModelError,
    wire::{Failure, classify},
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorBody {
    code: u16,
    message: Option<String>,
    /// gRPC's name of the status: `RESOURCE_EXHAUSTED`.
    status: Option<String>,
    details: Vec<Value>,
}

#[derive(Deserialize)]
struct Envelope {
    error: ErrorBody,
}

/// Without `alt=sse` the envelope is in a list of one; gateways differ. Lists come first: serde would read one as a struct.
#[derive(Deserialize)]
#[serde(untagged)]
enum Body {
    Many(Vec<Envelope>),
    One(Envelope),
}

pub(super) fn of_response(status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let error = match serde_json::from_slice(body) {
        Ok(Body::One(envelope)) => envelope.error,
        Ok(Body::Many(envelopes)) => envelopes.into_iter().next().map(|envelope| envelope.error).unwrap_or_default(),
        Err(_) => ErrorBody::default(),
    };
    error.classify(status, headers)
}

/// An error that came in the stream, after the status of the response said success.
pub(super) fn of_event(error: ErrorBody) -> ModelError {
    let status = if error.code == 0 { 500 } else { error.code };
    error.classify(status, &HeaderMap::new())
}

impl ErrorBody {
    fn classify(self, status: u16, headers: &HeaderMap) -> ModelError {
        let class = self.class();
        let exhausted_for_the_day = self.is_daily_quota();
        let mut headers = headers.clone();
        // Google says it in the body; from the header it is judged like every other wait.
        if let Some(delay) = self.retry_delay()
            && let Ok(millis) = HeaderValue::from_str(&delay.as_millis().to_string())
        {
            headers.insert("retry-after-ms", millis);
        }
        let failure = Failure { code: self.status, message: self.message };
        let error = classify(status, &headers, failure, class);
        if exhausted_for_the_day { error.with_retryable(false) } else { error }
    }

    fn class(&self) -> Option<ErrorClass> {
        let said = self.message.as_deref().unwrap_or_default().to_lowercase();
        Some(match self.status.as_deref()? {
            "INVALID_ARGUMENT" if self.has_reason("API_KEY_INVALID") || said.contains("api key not valid") => {
                ErrorClass::Auth
            }
            "INVALID_ARGUMENT" if said.contains("token count") && said.contains("exceeds") => ErrorClass::ContextWindow,
            "INVALID_ARGUMENT" if names_the_response_schema(&said) => ErrorClass::StructuredOutputSchemaRejected,
            "UNAUTHENTICATED" | "PERMISSION_DENIED" => ErrorClass::Auth,
            "RESOURCE_EXHAUSTED" => ErrorClass::RateLimit,
            "UNAVAILABLE" => ErrorClass::Overloaded,
            "DEADLINE_EXCEEDED" => ErrorClass::UpstreamDeadline,
            // Google cancelled it, not the run.
            "INTERNAL" | "CANCELLED" | "ABORTED" => ErrorClass::Server,
            _ => return None,
        })
    }

    fn details(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let end = format!("/google.rpc.{kind}");
        self.details.iter().filter(move |detail| detail["@type"].as_str().is_some_and(|kind| kind.ends_with(&end)))
    }

    fn has_reason(&self, reason: &str) -> bool {
        self.details("ErrorInfo").any(|info| info["reason"] == reason)
    }

    /// A quota per day is not waited for, whatever delay Google names.
    fn is_daily_quota(&self) -> bool {
        let mut violations =
            self.details("QuotaFailure").filter_map(|failure| failure["violations"].as_array()).flatten();
        violations.any(|violation| violation["quotaId"].as_str().is_some_and(|quota| quota.contains("PerDay")))
    }

    fn retry_delay(&self) -> Option<Duration> {
        let delay = self.details("RetryInfo").find_map(|info| info["retryDelay"].as_str())?;
        Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
    }
}

/// Google names the field of the request that it refuses.
fn names_the_response_schema(said: &str) -> bool {
    ["response_schema", "responseschema", "response_json_schema", "responsejsonschema", "response schema"]
        .iter()
        .any(|field| said.contains(field))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failure(status: u16, error: &Value) -> ModelError {
        of_response(status, &HeaderMap::new(), json!({"error": error}).to_string().as_bytes())
    }

    #[test]
    fn googles_statuses_have_classes() {
        use ErrorClass::{
            Auth, ContextWindow, InvalidRequest, Overloaded, RateLimit, Server, StructuredOutputSchemaRejected,
            UpstreamDeadline,
        };
        let table = [
            (400, "INVALID_ARGUMENT", "Request contains an invalid argument.", InvalidRequest, false),
            (
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                ContextWindow,
                false,
            ),
            (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", Auth, false),
            (
                400,
                "INVALID_ARGUMENT",
                "Invalid value at 'generation_config.response_json_schema': too deep",
                StructuredOutputSchemaRejected,
                false,
            ),
            (400, "FAILED_PRECONDITION", "User location is not supported for the API use.", InvalidRequest, false),
            (401, "UNAUTHENTICATED", "x", Auth, false),
            (403, "PERMISSION_DENIED", "x", Auth, false),
            (404, "NOT_FOUND", "models/x is not found", InvalidRequest, false),
            (429, "RESOURCE_EXHAUSTED", "x", RateLimit, true),
            (499, "CANCELLED", "The operation was cancelled.", Server, true),
            (500, "INTERNAL", "x", Server, true),
            (503, "UNAVAILABLE", "The model is overloaded.", Overloaded, true),
            (504, "DEADLINE_EXCEEDED", "x", UpstreamDeadline, true),
        ];
        for (status, code, message, class, retryable) in table {
            let error = failure(status, &json!({"code": status, "message": message, "status": code}));
            assert_eq!(
                (error.class, error.retryable, error.api_status, error.api_code.as_deref()),
                (class, retryable, Some(status), Some(code)),
                "{message}"
            );
        }
    }

    #[test]
    fn an_invalid_key_is_known_by_its_reason_too() {
        let details = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]);
        let error = failure(400, &json!({"code": 400, "status": "INVALID_ARGUMENT", "details": details}));
        assert_eq!(error.class, ErrorClass::Auth);
    }

    #[test]
    fn the_delay_of_the_body_counts_and_a_daily_quota_is_final() {
        let retry = |delay: &str| json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay});
        let quota =
            |id: &str| json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]});
        let per_minute = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier";
        let per_day = "GenerateRequestsPerDayPerProjectPerModel-FreeTier";
        let table = [
            (json!([retry("13s")]), Some(13_000), true),
            (json!([retry("27.350s"), quota(per_minute)]), Some(27_350), true),
            (json!([quota(per_day), retry("40s")]), Some(40_000), false),
            (json!([retry("7200s")]), Some(7_200_000), false),
            (json!([retry("soon"), "odd", {"@type": 1}]), None, true),
            (json!([]), None, true),
        ];
        for (details, millis, retryable) in table {
            let error = failure(429, &json!({"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details}));
            assert_eq!(
                (error.class, error.retry_after, error.retryable),
                (ErrorClass::RateLimit, millis.map(Duration::from_millis), retryable),
                "{details}"
            );
        }
    }

    #[test]
    fn lists_and_pages_of_gateways_are_read_as_far_as_they_go() {
        let listed = json!([{"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}]).to_string();
        let error = of_response(503, &HeaderMap::new(), listed.as_bytes());
        assert_eq!((error.class, error.message.as_str()), (ErrorClass::Overloaded, "the provider answered 503: busy"));
        let page = of_response(502, &HeaderMap::new(), b"<html>bad gateway</html>");
        assert_eq!((page.class, page.message.as_str()), (ErrorClass::Server, "the provider answered 502"));
    }
}
