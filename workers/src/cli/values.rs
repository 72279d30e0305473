//! Parsers for values on the command line. Their errors say what to write instead.

use std::{fs, time::Duration};

use serde_json::Value;
use windlass_core::{
    canonical::Digest,
    envelope::PolicyOverrides,
    ids::{AgentId, AwaitId, CallId, RunId, SessionId, WorkspaceId},
    limits::TAG_CHARS,
    time::{
        Timestamp,
        friendly::{self, DurationError},
    },
};

pub(crate) fn workspace(text: &str) -> Result<WorkspaceId, String> {
    WorkspaceId::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn session(text: &str) -> Result<SessionId, String> {
    SessionId::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn run(text: &str) -> Result<RunId, String> {
    RunId::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn agent(text: &str) -> Result<AgentId, String> {
    AgentId::parse(text).map_err(|error| error.to_string())
}

/// A role is a short word, because approval rules name it.
pub(crate) fn role(text: &str) -> Result<String, String> {
    let usable = !text.is_empty() && text.chars().count() <= TAG_CHARS && !text.contains(char::is_whitespace);
    usable.then(|| text.to_owned()).ok_or_else(|| format!("a role is 1 to {TAG_CHARS} characters without spaces"))
}

pub(crate) fn await_id(text: &str) -> Result<AwaitId, String> {
    AwaitId::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn digest(text: &str) -> Result<Digest, String> {
    Digest::parse(text).ok_or_else(|| "a digest is 64 hex digits; `windlass runs awaits` shows it".to_owned())
}

/// `name=value`.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write a label as NAME=VALUE".to_owned()),
    }
}

/// `CALL=JSON` or `CALL=@FILE`.
pub(crate) fn call_result(text: &str) -> Result<(CallId, Value), String> {
    let (call, body) = call_and(text, "CALL=JSON")?;
    let body = contents(body)?;
    let value = serde_json::from_str(&body)
        .map_err(|error| format!("the result of {call} is not JSON ({error}); quote a text: {call}='\"text\"'"))?;
    Ok((call, value))
}

/// `CALL=TEXT`.
pub(crate) fn call_error(text: &str) -> Result<(CallId, String), String> {
    let (call, message) = call_and(text, "CALL=TEXT")?;
    Ok((call, message.to_owned()))
}

fn call_and<'a>(text: &'a str, form: &str) -> Result<(CallId, &'a str), String> {
    let (call, rest) = text.split_once('=').ok_or_else(|| format!("write it as {form}"))?;
    Ok((CallId::parse(call).map_err(|error| error.to_string())?, rest))
}

/// JSON or `@FILE`. Unknown fields are rejected, so that a typing mistake cannot remove a limit.
pub(crate) fn policy(text: &str) -> Result<PolicyOverrides, String> {
    let policy: PolicyOverrides =
        serde_json::from_str(&contents(text)?).map_err(|error| format!("the policy is not valid: {error}"))?;
    match policy.extra.keys().next() {
        None => Ok(policy),
        Some(unknown) => Err(format!("a policy has no field `{unknown}`; see `maxToolCalls`, `timeBudgetMs`, …")),
    }
}

/// The text itself, or the contents of the file after `@`.
fn contents(text: &str) -> Result<String, String> {
    match text.strip_prefix('@') {
        Some(path) => fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}")),
        None => Ok(text.to_owned()),
    }
}

/// A duration such as `30s`, `5m` or `1h 30m`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    duration(text).map_err(|error| match error {
        DurationError::Negative => "a duration cannot be negative".to_owned(),
        DurationError::Malformed | DurationError::NoFixedLength => "write a duration such as 10s, 5m or 1h".to_owned(),
    })
}

/// An age such as `30d`, `4w` or `12h`. A day is 24 hours.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    duration(text).map_err(|error| match error {
        DurationError::Negative => "an age cannot be negative".to_owned(),
        DurationError::Malformed | DurationError::NoFixedLength => "write an age such as 30d, 4w or 12h".to_owned(),
    })
}

fn duration(text: &str) -> Result<Duration, DurationError> {
    if text.contains(['P', 'p']) { friendly::parse_iso8601(text) } else { friendly::parse(text) }
}

/// A point in time in RFC 3339, from 1970 on.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse_rfc3339(text).ok_or_else(|| "write a time after 1970 such as 2027-01-31T00:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_json_and_the_error_explains_quoting() {
        assert_eq!(call_result("call-0-0={\"a\": 1}"), Ok(("call-0-0".into(), json!({"a": 1}))));
        assert_eq!(call_result("call-0-0=\"a=b\""), Ok(("call-0-0".into(), json!("a=b"))));
        let error = call_result("call-0-0=fine").unwrap_err();
        assert!(error.ends_with("quote a text: call-0-0='\"text\"'"), "{error}");
        assert_eq!(call_result("fine").unwrap_err(), "write it as CALL=JSON");
    }

    #[test]
    fn a_result_can_be_read_from_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "[1]").unwrap();
        let text = format!("c=@{}", file.path().display());
        assert_eq!(call_result(&text), Ok(("c".into(), json!([1]))));
        assert!(call_result("c=@no-such-file").unwrap_err().starts_with("no-such-file cannot be read: "));
    }

    #[test]
    fn a_policy_with_an_unknown_field_is_rejected() {
        let expected = PolicyOverrides { max_tool_calls: Some(3), ..PolicyOverrides::default() };
        assert_eq!(policy("{\"maxToolCalls\": 3}"), Ok(expected));
        assert!(policy("{\"maxToolCall\": 3}").unwrap_err().contains("`maxToolCall`"));
        assert!(policy("{\"maxToolCalls\": -3}").is_err());
    }

    #[test]
    fn labels_and_durations() {
        assert_eq!(label("team=a=b"), Ok(("team".into(), "a=b".into())));
        assert!(label("=a").is_err() && label("team").is_err());
        assert_eq!([span("1m 30s"), span("PT1M30S"), span("0d 90s")], [90; 3].map(|s| Ok(Duration::from_secs(s))));
        assert!(span("soon").is_err() && span("-5s").is_err());
    }

    #[test]
    fn an_age_can_have_days_and_weeks_but_no_months() {
        let hours = |hours: u64| Ok(Duration::from_secs(hours * 3600));
        assert_eq!([age("30d"), age("4w"), age("1d 12h"), age("0s")], [hours(720), hours(672), hours(36), hours(0)]);
        assert_eq!(age("1mo").unwrap_err(), "write an age such as 30d, 4w or 12h");
        assert!(age("old").is_err() && age("-1d").is_err());
    }
}
