//! Reading a response: up to a limit, and text in the charset that it has.

use encoding_rs::{Encoding, UTF_8};
use reqwest::{
    Response,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap},
};
use windlass_core::envelope::ToolErrorKind;

use super::failure;
use crate::ToolFailure;

/// Types beside `text/*`, `*+json` and `*+xml` that are text in truth.
const TEXT_TYPES: [&str; 11] = [
    "application/json",
    "application/xml",
    "application/javascript",
    "application/x-javascript",
    "application/ecmascript",
    "application/x-ndjson",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/sql",
    "application/x-www-form-urlencoded",
];

/// What a response says its body is.
pub(crate) struct ContentType {
    /// For example `text/html`, lower case; `None` when the server did not say.
    pub(crate) essence: Option<String>,
    encoding: &'static Encoding,
}

/// The beginning of a body.
pub(crate) struct Read {
    pub(crate) bytes: Vec<u8>,
    /// There is more.
    pub(crate) truncated: bool,
}

/// Reads a body piece by piece, and no further than the limit.
pub(crate) async fn read_up_to(response: &mut Response, limit: usize) -> Result<Read, ToolFailure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failure::of_transport(&error))? {
        let room = limit - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok(Read { bytes, truncated: true });
        }
    }
    Ok(Read { bytes, truncated: false })
}

impl ContentType {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ToolFailure> {
        if headers.get(CONTENT_ENCODING).is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
        {
            return Err(refused("the response is compressed although the request did not allow it"));
        }
        let Some(header) = headers.get(CONTENT_TYPE) else { return Ok(Self { essence: None, encoding: UTF_8 }) };
        let header = header.to_str().map_err(|_| refused("the response's content type cannot be read"))?;
        let mut fields = header.split(';').map(str::trim);
        let essence = fields.next().unwrap_or_default().to_ascii_lowercase();
        let encoding = match fields.find_map(charset) {
            Some(label) => Encoding::for_label(label.as_bytes())
                .ok_or_else(|| refused(&format!("the response's charset {label:.100} is not known")))?,
            None => UTF_8,
        };
        Ok(Self { essence: Some(essence), encoding })
    }

    pub(crate) fn is_json(&self) -> bool {
        self.essence.as_deref().is_some_and(|essence| essence == "application/json" || essence.ends_with("+json"))
    }

    /// Text, or nothing that says otherwise.
    pub(crate) fn is_text(&self) -> bool {
        self.essence.as_deref().is_none_or(is_text)
    }

    pub(crate) fn decode(&self, Read { bytes, truncated }: &Read) -> Result<String, ToolFailure> {
        if self.essence.is_none() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_some()) {
            return Err(refused("the response does not say what it is and is not text"));
        }
        let mut decoder = self.encoding.new_decoder();
        let capacity = decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(bytes.len());
        let mut text = String::with_capacity(capacity);
        // A cut may go through a character; what is left of it is not an error and is not shown.
        let _ = decoder.decode_to_string(bytes, &mut text, !*truncated);
        Ok(text)
    }
}

fn is_text(essence: &str) -> bool {
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || TEXT_TYPES.contains(&essence)
}

fn charset(field: &str) -> Option<&str> {
    let (name, value) = field.split_once('=')?;
    name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
}

fn refused(message: &str) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::ToolFailed, message)
}
