//! What an HTTP status means, and how long the provider asks to wait.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;

use crate::{ErrorClass, ModelError};

/// What a provider says about a request that failed, in the provider's own words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failure {
    /// For example `overloaded_error` or `insufficient_quota`.
    pub code: Option<String>,
    /// The provider's sentence. It may quote the request, so only a part of it is shown.
    pub message: Option<String>,
}

/// The longest part of a provider's message that an error has.
const SHOWN_CHARS: usize = 300;
/// Longer waits are not awaited: the run fails, or another model is asked.
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

/// The error for a response that is no success. `class` is what the format knows of its own codes; without it the status
/// decides.
pub fn classify(status: u16, headers: &HeaderMap, failure: Failure, class: Option<ErrorClass>) -> ModelError {
    let class = class.unwrap_or(match status {
        401 | 403 => ErrorClass::Auth,
        408 => ErrorClass::Timeout,
        413 => ErrorClass::ContextWindow,
        429 => ErrorClass::RateLimit,
        503 | 529 => ErrorClass::Overloaded,
        504 => ErrorClass::UpstreamDeadline,
        500..=599 => ErrorClass::Server,
        400..=499 => ErrorClass::InvalidRequest,
        _ => ErrorClass::Unknown,
    });
    let said = failure.message.map(|said| said.chars().take(SHOWN_CHARS).collect::<String>());
    let message = match (said, &failure.code) {
        (Some(said), _) if !said.trim().is_empty() => format!("the provider answered {status}: {}", said.trim()),
        (_, Some(code)) => format!("the provider answered {status} ({code})"),
        _ => format!("the provider answered {status}"),
    };
    let mut error = ModelError::new(class, message).with_api_status(status);
    error.api_code = failure.code;
    error.retry_after = retry_after(headers, SystemTime::now());
    if error.retry_after.is_some_and(|wait| wait > LONGEST_WAIT) {
        error.retryable = false;
    }
    error
}

/// How long the provider asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    if let Some(millis) = number("retry-after-ms") {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    if let Some(seconds) = number("retry-after") {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = chrono::DateTime::parse_from_rfc2822(text("retry-after")?).ok()?;
    let at = UNIX_EPOCH + Duration::from_secs(u64::try_from(at.timestamp()).ok()?);
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_status_decides_the_class_unless_the_format_knows_better() {
        let table = [
            (400, ErrorClass::InvalidRequest, false),
            (401, ErrorClass::Auth, false),
            (403, ErrorClass::Auth, false),
            (404, ErrorClass::InvalidRequest, false),
            (408, ErrorClass::Timeout, true),
            (413, ErrorClass::ContextWindow, false),
            (429, ErrorClass::RateLimit, true),
            (500, ErrorClass::Server, true),
            (502, ErrorClass::Server, true),
            (503, ErrorClass::Overloaded, true),
            (504, ErrorClass::UpstreamDeadline, true),
            (529, ErrorClass::Overloaded, true),
            (302, ErrorClass::Unknown, false),
        ];
        for (status, class, retryable) in table {
            let error = classify(status, &HeaderMap::new(), Failure::default(), None);
            assert_eq!((error.class, error.retryable, error.api_status), (class, retryable, Some(status)));
        }
        let known = classify(400, &HeaderMap::new(), Failure::default(), Some(ErrorClass::ContextWindow));
        assert_eq!(known.class, ErrorClass::ContextWindow);
    }

    #[test]
    fn the_providers_words_are_shown_up_to_a_limit() {
        let failure = Failure { code: Some("rate_limit_error".into()), message: Some("x".repeat(1000)) };
        let error = classify(429, &HeaderMap::new(), failure, None);
        assert_eq!(error.message, format!("the provider answered 429: {}", "x".repeat(300)));
        assert_eq!(error.api_code.as_deref(), Some("rate_limit_error"));
        let bare = classify(500, &HeaderMap::new(), Failure { code: Some("c".into()), message: None }, None);
        assert_eq!(bare.message, "the provider answered 500 (c)");
    }

    #[test]
    fn the_wait_is_read_in_every_form() {
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let cases = [
            (vec![("retry-after", "3")], Some(3000)),
            (vec![("retry-after", "0.5")], Some(500)),
            (vec![("retry-after-ms", "250"), ("retry-after", "1")], Some(250)),
            (vec![("retry-after", "Tue, 14 Nov 2023 22:13:30 GMT")], Some(10_000)),
            (vec![("retry-after", "Tue, 14 Nov 2023 22:13:00 GMT")], Some(0)),
            (vec![("retry-after", "soon")], None),
            (vec![("retry-after", "-1")], None),
            (vec![], None),
        ];
        for (pairs, millis) in cases {
            assert_eq!(retry_after(&headers(&pairs), now), millis.map(Duration::from_millis), "{pairs:?}");
        }
    }

    #[test]
    fn a_provider_that_asks_for_hours_is_not_waited_for() {
        let error = classify(429, &headers(&[("retry-after", "7200")]), Failure::default(), None);
        assert_eq!((error.retryable, error.retry_after), (false, Some(Duration::from_secs(7200))));
    }
}
