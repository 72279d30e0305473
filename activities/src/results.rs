//! What becomes of a tool's result before anything else reads it: secrets are removed, its schema is checked, and a
//! result above its tool's limit is stored and cut.

use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use temporalio_sdk::activities::ActivityError;
use windlass_core::{
    agent::ToolSpec,
    canonical::CanonicalJson,
    envelope::{BlobRef, Bounds, Continuation, ToolErrorKind},
    message::{Content, Part},
};
use windlass_tools::{ToolFailure, ToolSuccess};

use crate::RunActivities;

/// A larger result is a failure of the tool.
const MAX_RESULT: u64 = 4 * 1024 * 1024;
/// Shorter values are not looked for: they would be found in ordinary text.
const SHORTEST_SECRET: usize = 6;
const REDACTED: &str = "[redacted]";

impl RunActivities {
    /// The result as the run takes it, or the failure that it is.
    pub(crate) async fn accept(
        &self,
        mut success: ToolSuccess,
        spec: Option<&ToolSpec>,
    ) -> Result<Result<ToolSuccess, ToolFailure>, ActivityError> {
        let bytes = success.result.bytes();
        if bytes > MAX_RESULT {
            let message = format!("the result has {bytes} bytes; at most {MAX_RESULT} are taken");
            return Ok(Err(ToolFailure::new(ToolErrorKind::ToolFailed, message)));
        }
        let limit = spec.and_then(|spec| spec.max_output_bytes).filter(|limit| bytes > *limit);
        if let Some(limit) = limit {
            let whole = BlobRef::of(&success.result);
            self.put(Some(success.result.clone())).await?;
            success.bounds = Some(bounds_of(&success, limit));
            success.result = preview(&success.result, limit, whole);
        }
        Ok(Ok(success))
    }
}

/// The beginning of a result, and where the whole is. The store keeps what a message refers to as `blob`.
fn preview(result: &CanonicalJson, limit: u64, whole: BlobRef) -> CanonicalJson {
    let value = result.to_value();
    let text = value.as_str().unwrap_or(result.as_str());
    let end = text.floor_char_boundary(usize::try_from(limit).unwrap_or(usize::MAX));
    json!({"preview": &text[..end], "truncated": true, "bytes": result.bytes(), "whole": {"blob": whole}}).into()
}

fn bounds_of(success: &ToolSuccess, limit: u64) -> Bounds {
    let hint = format!("The result is cut after {limit} bytes. Ask for less, or for a part of it.");
    let given = success.bounds.clone().unwrap_or_default();
    Bounds { truncated: true, refinement_hint: given.refinement_hint.clone().or(Some(hint)), ..given }
}

/// The result without the values of secrets that it may repeat.
pub(crate) fn redacted(mut success: ToolSuccess, secrets: &[SecretString]) -> ToolSuccess {
    let spellings = spellings(secrets);
    if spellings.is_empty() {
        return success;
    }
    if let Some(clean) = without(success.result.as_str(), &spellings) {
        // Only text inside strings was replaced, so it is JSON still; a key that was replaced may be out of order.
        success.result = CanonicalJson::parse(&clean).unwrap_or_else(|_| json!(REDACTED).into());
    }
    for part in &mut success.content {
        redact_part(part, &spellings);
    }
    if let Some(data) = &success.server_data
        && let Some(clean) = without(&data.to_string(), &spellings)
    {
        success.server_data = serde_json::from_str(&clean).ok();
    }
    success
}

fn redact_part(part: &mut Part, spellings: &[String]) {
    if let Content::Text { text, .. } = &mut part.content
        && let Some(clean) = without(text, spellings)
    {
        *text = clean;
    }
}

/// The failure without the values of secrets that its message may repeat.
pub(crate) fn redacted_failure(mut failure: ToolFailure, secrets: &[SecretString]) -> ToolFailure {
    if let Some(clean) = without(&failure.error.message, &spellings(secrets)) {
        failure.error.message = clean;
    }
    failure
}

/// A continuation is in history and its questions are shown to people, so it must not repeat a secret.
pub(crate) fn without_secrets(
    continuation: Continuation,
    secrets: &[SecretString],
) -> Result<Continuation, ToolFailure> {
    let text = CanonicalJson::of(&continuation).map(|json| json.to_string()).unwrap_or_default();
    match without(&text, &spellings(secrets)) {
        None => Ok(continuation),
        Some(_) => {
            let message = "the tool's server repeated a credential in its request for input; the call was given up";
            Err(ToolFailure::new(ToolErrorKind::ToolFailed, message))
        }
    }
}

/// Each value as it is, and as JSON text has it.
fn spellings(secrets: &[SecretString]) -> Vec<String> {
    let mut spellings = Vec::new();
    for value in secrets.iter().map(|secret| secret.expose_secret()).filter(|value| value.len() >= SHORTEST_SECRET) {
        let escaped = serde_json::Value::from(value).to_string();
        let escaped = escaped[1..escaped.len() - 1].to_owned();
        if escaped != value {
            spellings.push(escaped);
        }
        spellings.push(value.to_owned());
    }
    spellings
}

fn without(text: &str, spellings: &[String]) -> Option<String> {
    let found = spellings.iter().any(|spelling| text.contains(spelling.as_str()));
    found.then(|| spellings.iter().fold(text.to_owned(), |text, spelling| text.replace(spelling.as_str(), REDACTED)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secrets_are_removed_in_every_spelling() {
        let secrets = [SecretString::from("to\"ken-1"), SecretString::from("abc")];
        let mut success = ToolSuccess::new(json!({"echo": "Bearer to\"ken-1", "short": "abc"}));
        success.content = vec![Content::Text { text: "it is to\"ken-1".to_owned() }.into()];
        success.server_data = Some(json!({"h": "to\"ken-1"}));
        let clean = redacted(success, &secrets);
        assert_eq!(clean.result.to_value(), json!({"echo": "Bearer [redacted]", "short": "abc"}));
        assert_eq!(clean.content, vec![Part::from(Content::Text { text: "it is [redacted]".to_owned() })]);
        assert_eq!(clean.server_data, Some(json!({"h": "[redacted]"})));
        let failure = ToolFailure::new(ToolErrorKind::ToolFailed, "401 for to\"ken-1");
        assert_eq!(redacted_failure(failure, &secrets).error.message, "401 for [redacted]");
    }

    #[test]
    fn a_preview_ends_at_a_character_and_says_where_the_whole_is() {
        let result = CanonicalJson::from(json!("äöü"));
        let whole = BlobRef::of(&result);
        let shown = preview(&result, 3, whole).to_value();
        assert_eq!(shown, json!({"preview": "ä", "truncated": true, "bytes": 8, "whole": {"blob": whole}}));
    }
}
