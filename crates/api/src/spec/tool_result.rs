//! The body of `POST …/tool-results`.

use serde_json::Value;
use windlass_core::{envelope::ProvidedToolResult, ids::CallId};

use super::{Attachment, Invalid, attachments, fields::Fields};

const MAX_RESULT: usize = ProvidedToolResult::MAX_BYTES;
const MAX_ERROR: usize = 8 * 1024;

/// What the caller says about one call.
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
            // A refusal would leave the call open until its time is up, so a long text is cut instead.
            (None, Some(error)) => Outcome::Failure { error: cut(error, MAX_ERROR).to_owned() },
            // Some clients leave an empty result out.
            (result, None) => {
                let result = result.unwrap_or_default();
                if result.len() > MAX_RESULT {
                    let problem = format!("is {} bytes; send at most {MAX_RESULT}", result.len());
                    return Err(fields.invalid("result", problem));
                }
                Outcome::Success { result: result.to_owned(), files: attachments::files(&fields, "files")? }
            }
        };
        Ok(Self { tool_use_id, outcome })
    }
}

/// The beginning of a text, at most `bytes` long and never half a character.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
