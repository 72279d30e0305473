//! Anthropic's Messages API.
//!
//! `request.rs` and `messages.rs` write a request, `reader.rs` and `block.rs` read the stream, `failure.rs` has the
//! meaning of errors. They are pure.

mod block;
mod failure;
mod media;
mod messages;
mod reader;
mod request;
#[cfg(test)]
mod tests;
mod thinking;
mod usage;

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::{
    ModelError, ModelRequest,
    wire::{StreamReader, Wire, WireRequest},
};

/// The key of this format in the provider options of an agent.
const FORMAT: &str = "anthropic";

/// The version of the API. It has no sampling parameters any more, so an agent's `temperature` and `top_p` are not sent.
const VERSION: &str = "2026-10-21";

/// The wire format of `POST /v1/messages` with a streamed answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnthropicMessages;

impl Wire for AnthropicMessages {
    fn request(&self, request: &ModelRequest) -> Result<WireRequest, ModelError> {
        Ok(WireRequest {
            path: "v1/messages".to_owned(),
            headers: BTreeMap::from([("anthropic-version", VERSION.to_owned())]),
            body: request::body(request)?,
        })
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("x-api-key", "")
    }

    fn reader(&self, request: &ModelRequest) -> Box<dyn StreamReader> {
        Box::new(reader::Reader::new(request))
    }

    fn failure(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
        failure::of_response(status, headers, body)
    }
}
