//! What the provider counts.

use serde::Deserialize;
use windlass_core::envelope::TokenUsage;

/// Tokens, as far as they are counted. Counts in an event are totals.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Counted {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

impl Counted {
    /// A count that a later event leaves out stays.
    pub(super) fn then(self, later: Self) -> Self {
        Self {
            input_tokens: later.input_tokens.or(self.input_tokens),
            output_tokens: later.output_tokens.or(self.output_tokens),
            cache_creation_input_tokens: later.cache_creation_input_tokens.or(self.cache_creation_input_tokens),
            cache_read_input_tokens: later.cache_read_input_tokens.or(self.cache_read_input_tokens),
            output_tokens_details: later.output_tokens_details.or(self.output_tokens_details),
        }
    }

    /// The provider counts what it read from its cache, and what it wrote to it, apart from the rest of the input.
    pub(super) fn usage(self, model: Option<String>) -> TokenUsage {
        let cache_read = self.cache_read_input_tokens.unwrap_or_default();
        let cache_write = self.cache_creation_input_tokens.unwrap_or_default();
        let input = self.input_tokens.unwrap_or_default().saturating_add(cache_read).saturating_add(cache_write);
        let output = self.output_tokens.unwrap_or_default();
        TokenUsage {
            model,
            input_tokens: input,
            output_tokens: output,
            total_tokens: input.saturating_add(output),
            cache_read_tokens: cache_read,
            cache_write_tokens: cache_write,
            reasoning_tokens: self
                .output_tokens_details
                .and_then(|details| details.thinking_tokens)
                .unwrap_or_default(),
            cost_usd: None,
        }
    }
}
