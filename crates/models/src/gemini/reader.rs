//! Reads one answer from its chunks.

use windlass_core::{envelope::TokenUsage, stop::StopReason};

use super::{
    chunk::{Candidate, Chunk, UsageMetadata},
    failure,
    grounding::{Grounding, SEARCH},
    parts::Parts,
    stop::of_finish_reason,
};
use crate::{
    Delta, DeltaKind, ErrorClass, ModelError, ModelRequest, ModelResponse,
    wire::{Asked, Output, StreamReader, cut_off, read},
};

pub(super) struct Reader {
    parts: Parts,
    grounding: Grounding,
    search: Option<usize>,
    finish_reason: Option<String>,
    blocked: bool,
    usage: Option<UsageMetadata>,
    response_id: Option<String>,
}

impl Reader {
    pub(super) fn new(request: &ModelRequest) -> Self {
        Self {
            parts: Parts::new(Asked::of(request, Output::enforced)),
            grounding: Grounding::default(),
            search: None,
            finish_reason: None,
            blocked: false,
            usage: None,
            response_id: None,
        }
    }

    fn candidate(&mut self, candidate: Candidate<'_>) -> Result<Vec<Delta>, ModelError> {
        let mut deltas = Vec::new();
        for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
            deltas.extend(self.parts.add(part)?);
        }
        if let Some(metadata) = candidate.grounding_metadata {
            self.grounding.add(metadata);
            if self.search.is_none() && self.grounding.has_searched() {
                let part = self.parts.reserve();
                self.search = Some(part);
                deltas.push(Delta::of(part, DeltaKind::ProviderToolDone { name: SEARCH.to_owned() }));
            }
        }
        if candidate.finish_reason.is_some() {
            self.finish_reason = candidate.finish_reason;
        }
        Ok(deltas)
    }

    fn stop(&self) -> Result<StopReason, ModelError> {
        match self.finish_reason.as_deref() {
            Some("MISSING_THOUGHT_SIGNATURE") => Err(ModelError::new(
                ErrorClass::InvalidRequest,
                "the provider misses a thought signature in the conversation; start a new conversation for this model",
            )),
            Some("STOP") if self.parts.malformed => Ok(StopReason::MalformedCall),
            Some(reason) => Ok(of_finish_reason(reason, self.parts.has_calls())),
            None if self.blocked => Ok(StopReason::ContentFilter),
            None => Err(cut_off()),
        }
    }
}

impl StreamReader for Reader {
    fn event(&mut self, _name: Option<&str>, data: &str) -> Result<Vec<Delta>, ModelError> {
        let chunk: Chunk<'_> = read("a chunk", data)?;
        if let Some(error) = chunk.error {
            return Err(failure::of_event(serde_json::from_str(error.get()).unwrap_or_default()));
        }
        self.usage = chunk.usage_metadata.or(self.usage);
        self.parts.asked.reported(chunk.model_version);
        if chunk.response_id.is_some() {
            self.response_id = chunk.response_id;
        }
        self.blocked |= chunk.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some());
        // Options may ask for more than one candidate; the first is the answer.
        let first = chunk.candidates.into_iter().flatten().find(|candidate| candidate.index.unwrap_or(0) == 0);
        first.map_or(Ok(Vec::new()), |candidate| self.candidate(candidate))
    }

    /// Older models say `STOP` in every chunk, so only the end of the stream is the end.
    fn is_complete(&self) -> bool {
        false
    }

    fn usage(&self) -> TokenUsage {
        let Some(usage) = self.usage else { return TokenUsage::default() };
        let input_tokens = usage.prompt_token_count.saturating_add(usage.tool_use_prompt_token_count);
        let output_tokens = usage.candidates_token_count.saturating_add(usage.thoughts_token_count);
        TokenUsage {
            model: self.parts.asked.full_model(),
            input_tokens,
            output_tokens,
            total_tokens: usage.total_token_count.unwrap_or_else(|| input_tokens.saturating_add(output_tokens)),
            cache_read_tokens: usage.cached_content_token_count,
            reasoning_tokens: usage.thoughts_token_count,
            ..TokenUsage::default()
        }
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        let stop = self.stop()?;
        let usage = TokenUsage { model: self.parts.asked.full_model(), ..self.usage() };
        let enforced = self.parts.asked.enforced;
        let mut parts = self.parts.finish(self.grounding.search());
        self.grounding.cite(&mut parts);
        Ok(ModelResponse { parts, awaits: Vec::new(), stop, usage, response_id: self.response_id, enforced })
    }
}
