//! What a chunk of the stream has. Parts stay JSON text: they are replayed with the bytes they came with.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::Fields;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    pub(super) prompt_feedback: Option<PromptFeedback>,
    pub(super) usage_metadata: Option<UsageMetadata>,
    pub(super) model_version: Option<String>,
    pub(super) response_id: Option<String>,
    /// An error in the middle of the stream has the form of an error response.
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Candidate<'a> {
    #[serde(borrow)]
    pub(super) content: Option<ContentChunk<'a>>,
    pub(super) finish_reason: Option<String>,
    pub(super) index: Option<u32>,
    pub(super) grounding_metadata: Option<Fields>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContentChunk<'a> {
    #[serde(borrow)]
    pub(super) parts: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PromptFeedback {
    pub(super) block_reason: Option<String>,
}

/// Counts so far; each chunk's replace those of the one before.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct UsageMetadata {
    pub(super) prompt_token_count: u64,
    pub(super) tool_use_prompt_token_count: u64,
    pub(super) cached_content_token_count: u64,
    pub(super) candidates_token_count: u64,
    pub(super) thoughts_token_count: u64,
    pub(super) total_token_count: Option<u64>,
}
