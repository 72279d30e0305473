//! The body of `POST …/tool-results`.

use serde_json::Value;
use windlass_core::{
    agent::nearest,
    ids::CallId,
    limits::{ERROR_BYTES, RESULT_BYTES},
};

use super::{Attachment, Invalid, attachments, fields::Fields};

/// The fields of a result. Others are ignored, unless there is neither a result nor an error.
const FIELDS: [&str; 4] = ["toolUseId", "result", "error", "files"];

/// The result of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    pub tool_use_id: CallId,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Success { result: String, files: Vec<Attachment> },
    Failure { error: String },
}

impl ToolResult {
    pub fn parse(body: &Value) -> Result<Self, Invalid> {
        let fields = Fields::of_body(body)?;
        let tool_use_id = fields.required_text("toolUseId")?;
        let tool_use_id =
            CallId::parse(tool_use_id).map_err(|problem| fields.invalid("toolUseId", problem.to_string()))?;
        let outcome = match (fields.text("result")?, fields.text("error")?) {
            (Some(_), Some(_)) => return Err(fields.invalid("error", "send either result or error, not both")),
            // Truncated, because a 400 would leave the call open until its timeout.
            (None, Some(error)) => Outcome::Failure { error: cut(error, ERROR_BYTES).to_owned() },
            (result, None) => {
                if result.is_none() {
                    refuse_misspelt(&fields)?;
                }
                let result = result.unwrap_or_default();
                if result.len() > RESULT_BYTES {
                    let problem = format!("is {} bytes; send at most {RESULT_BYTES}", result.len());
                    return Err(fields.invalid("result", problem));
                }
                Outcome::Success { result: result.to_owned(), files: attachments::files(&fields, "files")? }
            }
        };
        Ok(Self { tool_use_id, outcome })
    }
}

/// Some clients omit an empty result. But with an unknown field and no result, the field is probably a misspelt `result`:
/// accepting that as empty would lose it.
fn refuse_misspelt(fields: &Fields<'_>) -> Result<(), Invalid> {
    let absent = |key: &str| fields.get(key).is_none();
    let unknown = fields.entries().map(|(key, _)| key.as_str()).find(|key| !FIELDS.contains(key));
    match unknown.filter(|_| absent("result") && absent("error")) {
        None => Ok(()),
        Some(key) => {
            let meant = nearest(key, ["result", "error"]).unwrap_or("result");
            let shown: String = key.chars().take(64).collect();
            Err(fields.invalid(key, format!("unknown field `{shown}`; did you mean `{meant}`?")))
        }
    }
}

/// The beginning of a text, at most `bytes` long, cut at a character boundary.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
