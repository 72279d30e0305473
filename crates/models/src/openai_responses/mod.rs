//! OpenAI's Responses. Nothing is stored at the provider: reasoning comes back encrypted inside its items, and every
//! request has the whole conversation.
//!
//! An answer is a list of items; the provider item of a part is the item as it came. A message item may have several
//! contents, and each is a part: the first one carries the item, the others a [`continuation`], so that the item is sent
//! once. The format has no stop sequences; an agent's are not sent.

mod continuation;
mod conversation;
mod items;
mod reader;
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
pub struct OpenAiResponses;

impl Wire for OpenAiResponses {
    fn request(&self, request: &ModelRequest) -> Result<WireRequest, ModelError> {
        Ok(WireRequest { path: "responses".to_owned(), headers: BTreeMap::new(), body: request::body(request)? })
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
