//! OpenAI's Chat Completions, and the servers that speak the same format: Ollama, vLLM, OpenRouter, xAI, Azure, LiteLLM.
//!
//! An answer is one message with several parts. The provider item of a call is its element of `tool_calls`; the item of
//! any other part is an object with the message's fields that belong to it, such as `{"content":"…"}` or
//! `{"reasoning_content":"…"}`. A request puts them together into one message again.

mod answer;
mod calls;
mod conversation;
mod reader;
mod reasoning;
mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::{
    ModelError, ModelRequest,
    openai::failure,
    wire::{StreamReader, Wire, WireRequest},
};

/// The wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenAiChat {
    pub dialect: Dialect,
}

/// What OpenAI and the servers that imitate it do differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI and Azure: `developer` messages, `max_completion_tokens`, a key for the prompt cache.
    OpenAi,
    /// Other servers: `system` messages, `max_tokens`, nothing that a server could refuse because it does not know it.
    Compatible,
}

impl Wire for OpenAiChat {
    fn request(&self, request: &ModelRequest) -> Result<WireRequest, ModelError> {
        let body = request::body(request, self.dialect)?;
        Ok(WireRequest { path: "chat/completions".to_owned(), headers: BTreeMap::new(), body })
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("authorization", "Bearer ")
    }

    fn reader(&self, request: &ModelRequest) -> Box<dyn StreamReader> {
        Box::new(reader::Reader::new(request))
    }

    fn failure(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
        failure(status, headers, body)
    }
}
