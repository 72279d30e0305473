//! The limits of a tool's result: one above its tool's limit is stored and cut.

use serde_json::json;
use temporalio_sdk::activities::ActivityError;
use windlass_core::{
    agent::ToolSpec,
    canonical::CanonicalJson,
    envelope::{BlobRef, Bounds, ToolErrorKind},
};
use windlass_tools::{ToolFailure, ToolSuccess};

use crate::RunActivities;

/// A larger result is a failure of the tool.
const MAX_RESULT: u64 = 4 * 1024 * 1024;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_ends_at_a_character_and_says_where_the_whole_is() {
        let result = CanonicalJson::from(json!("äöü"));
        let whole = BlobRef::of(&result);
        let shown = preview(&result, 3, whole).to_value();
        assert_eq!(shown, json!({"preview": "ä", "truncated": true, "bytes": 8, "whole": {"blob": whole}}));
    }
}
