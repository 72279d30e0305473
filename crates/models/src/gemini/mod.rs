//! Gemini's `streamGenerateContent`.
//!
//! A response is a stream of chunks, and a chunk has whole parts or pieces of text. Thought signatures are the hard part:
//! Google wants each one back on the part that it came with, and a part that has one must not be joined with another.

mod chunk;
mod contents;
mod failure;
mod grounding;
mod media;
mod parts;
mod reader;
mod request;
mod stop;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use http::HeaderMap;

use crate::{
    ModelError, ModelRequest, ModelSpec, StructuredOutputControl,
    wire::{StreamReader, Wire, WireRequest},
};

/// The wire format of Google's Gemini API.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gemini;

impl Wire for Gemini {
    fn request(&self, request: &ModelRequest) -> Result<WireRequest, ModelError> {
        let path = format!("v1beta/{}:streamGenerateContent?alt=sse", resource(&request.model)?);
        Ok(WireRequest { path, headers: BTreeMap::new(), body: request::body(&as_supported(request))? })
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("x-goog-api-key", "")
    }

    fn reader(&self, request: &ModelRequest) -> Box<dyn StreamReader> {
        Box::new(reader::Reader::new(&as_supported(request)))
    }

    fn failure(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
        failure::of_response(status, headers, body)
    }
}

/// The path of a model. Its name goes into the URL, so it may only have what names of models have.
fn resource(model: &str) -> Result<String, ModelError> {
    let (collection, name) = match model.split_once('/') {
        Some((collection @ ("models" | "tunedModels"), name)) => (collection, name),
        _ => ("models", model),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(fits) || name.starts_with('.') {
        let message = format!("{model:?} is no name of a Gemini model; use a name such as gemini-3-flash-preview");
        return Err(ModelError::invalid_request(message));
    }
    Ok(format!("{collection}/{name}"))
}

/// Gemini up to 2.5 refuses a response schema together with function tools. There the answer is asked for as the arguments
/// of one more tool, and the response says that it was enforced that way.
fn as_supported(request: &ModelRequest) -> Cow<'_, ModelRequest> {
    let schema_and_tools = request.output_schema.is_some()
        && request.spec.structured_output == StructuredOutputControl::Native
        && !request.tools.is_empty();
    if !(schema_and_tools && is_before_3(&request.model)) {
        return Cow::Borrowed(request);
    }
    let spec = ModelSpec { structured_output: StructuredOutputControl::Tool, ..(*request.spec).clone() };
    Cow::Owned(ModelRequest { spec: Arc::new(spec), ..request.clone() })
}

/// Gemini 3 brought response schemas beside tools, files inside function responses and the check of thought signatures.
fn is_before_3(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.starts_with("gemini-2") || name.starts_with("gemini-1")
}
