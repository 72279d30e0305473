//! Images and documents as content blocks.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use windlass_core::message::{DocumentFormat, DocumentSource, ImageFormat, ImageSource};

use crate::{
    ModelError,
    wire::media::{image_type, unresolved},
};

/// Where the bytes of an image or the content of a document are.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Source {
    Base64 { media_type: &'static str, data: String },
    Url { url: String },
    Text { media_type: &'static str, data: String },
    Content { content: Vec<Chunk> },
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "text")]
pub(super) struct Chunk {
    text: String,
}

pub(super) fn image(format: ImageFormat, source: &ImageSource) -> Result<Source, ModelError> {
    let media_type = image_type(format);
    match source {
        ImageSource::Bytes(data) => Ok(Source::Base64 { media_type, data: data.clone() }),
        ImageSource::Uri(url) => Ok(Source::Url { url: url.clone() }),
        ImageSource::Blob(_) => Err(unresolved("an image")),
    }
}

/// The source of a document, or a text in its place if the API has no form for it.
pub(super) fn document(name: &str, format: DocumentFormat, source: &DocumentSource) -> Result<Source, ModelError> {
    match source {
        DocumentSource::Bytes(data) if format == DocumentFormat::Pdf => {
            Ok(Source::Base64 { media_type: "application/pdf", data: data.clone() })
        }
        DocumentSource::Bytes(data) => {
            let bytes = BASE64_STANDARD.decode(data).map_err(|error| {
                ModelError::invalid_request(format!("the document {name:?} is not valid base64: {error}"))
            })?;
            Ok(plain(name, &String::from_utf8_lossy(&bytes)))
        }
        DocumentSource::Text(text) => Ok(plain(name, text)),
        DocumentSource::Chunks(chunks) if chunks.iter().all(|chunk| is_blank(chunk)) => Ok(plain(name, "")),
        DocumentSource::Chunks(chunks) => {
            let chunks = chunks.iter().filter(|chunk| !is_blank(chunk));
            Ok(Source::Content { content: chunks.map(|text| Chunk { text: text.clone() }).collect() })
        }
        DocumentSource::Uri(url) if format == DocumentFormat::Pdf => Ok(Source::Url { url: url.clone() }),
        // The API reads PDF files at addresses, and nothing else.
        DocumentSource::Uri(url) => Ok(plain(name, &format!("The content of this document is at {url}"))),
        DocumentSource::Blob(_) => Err(unresolved("a document")),
    }
}

/// The API refuses a document without text.
fn plain(name: &str, text: &str) -> Source {
    let data = if is_blank(text) { format!("(The document {name:?} is empty.)") } else { text.to_owned() };
    Source::Text { media_type: "text/plain", data }
}

/// The API refuses text blocks without a visible character.
pub(super) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
