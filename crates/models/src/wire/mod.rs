//! Models behind an HTTP API. [`HttpModel`] has what all of them share: the connection, server-sent events, time-outs and
//! cancellation. A [`Wire`] is one format: how a request is written, how the stream is read and what an error means. The
//! formats are pure; they do no IO.

mod asked;
mod failure;
mod fields;
mod http_model;
pub(crate) mod media;
mod names;
pub(crate) mod options;
mod prepare;

use std::collections::BTreeMap;

use http::HeaderMap;
use serde::Deserialize;
use windlass_core::envelope::TokenUsage;

pub(crate) use self::{
    asked::Asked,
    fields::{Fields, is_absent, quoted, text_of},
};
pub use self::{
    failure::{Failure, classify},
    http_model::{Endpoint, HttpModel},
    names::ToolNames,
    prepare::{Output, Prepared, prepare},
};
use crate::{Delta, ModelError, ModelRequest, ModelResponse};

/// One wire format.
pub trait Wire: Send + Sync + 'static {
    /// The request for one streamed answer.
    fn request(&self, request: &ModelRequest) -> Result<WireRequest, ModelError>;

    /// The header that carries the key, and what stands before the key in it: `("authorization", "Bearer ")`.
    fn key_header(&self) -> (&'static str, &'static str);

    /// A reader for the stream of this request.
    fn reader(&self, request: &ModelRequest) -> Box<dyn StreamReader>;

    /// What a response that is no success means.
    fn failure(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError;
}

/// What is sent to the provider. The credentials are added by [`HttpModel`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireRequest {
    /// Below the endpoint's base URL, without a slash at the beginning: `v1/messages`.
    pub path: String,
    /// Headers of the format itself, such as its version.
    pub headers: BTreeMap<&'static str, String>,
    /// JSON text. The order of its fields is part of the format: what is stable comes first, so that the provider's
    /// prompt cache finds the same prefix on the next turn.
    pub body: String,
}

/// Reads one answer from its events.
pub trait StreamReader: Send {
    /// One server-sent event: its name, if it has one, and its data. An event that is not known is passed over.
    fn event(&mut self, name: Option<&str>, data: &str) -> Result<Vec<Delta>, ModelError>;

    /// Whether the answer is complete, so that the rest of the stream need not be awaited.
    fn is_complete(&self) -> bool;

    /// What the provider has counted so far. A call that fails is charged, too.
    fn usage(&self) -> TokenUsage;

    /// The answer at the end of the stream. An error if the stream ended too early.
    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError>;
}

/// The error of a stream that ended before its answer was complete.
pub(crate) fn cut_off() -> ModelError {
    ModelError::new(crate::ErrorClass::Server, "the provider's stream ended before the answer was complete")
}

/// Reads JSON of the provider. An error does not quote it: it may contain the answer.
pub(crate) fn read<'a, T: Deserialize<'a>>(what: &str, json: &'a str) -> Result<T, ModelError> {
    serde_json::from_str(json).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = format!("the provider sent {what} that cannot be read (line {line}, column {column})");
        ModelError::new(crate::ErrorClass::Server, message)
    })
}
