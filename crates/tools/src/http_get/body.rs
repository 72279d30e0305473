//! Reading a response: text or JSON, up to a limit.

use encoding_rs::{Encoding, UTF_8};
use reqwest::{
    Response,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap},
};
use serde_json::{Value, json};
use windlass_core::envelope::{Bounds, ToolErrorKind};

use super::failure;
use crate::{ToolFailure, ToolSuccess};

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
struct ContentType {
    /// For example `text/html`, lower case; `None` when the server did not say.
    essence: Option<String>,
    encoding: &'static Encoding,
}

/// The response as the tool's result.
pub(super) async fn read(mut response: Response, limit: usize) -> Result<ToolSuccess, ToolFailure> {
    let status = response.status().as_u16();
    let content_type = ContentType::of(response.headers())?;
    let announced = response.content_length();

    let mut bytes = Vec::new();
    let mut truncated = false;
    while let Some(chunk) = response.chunk().await.map_err(|error| failure::of_transport(&error))? {
        let room = limit - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            truncated = true;
            break;
        }
    }

    let text = content_type.decode(&bytes, truncated)?;
    let parsed: Option<Value> =
        if content_type.is_json() && !truncated { serde_json::from_str(&text).ok() } else { None };
    let mut result = json!({"status": status, "contentType": content_type.essence, "truncated": truncated});
    match parsed {
        Some(parsed) => result["json"] = parsed,
        None => result["body"] = Value::String(text),
    }
    let returned = bytes.len() as u64;
    let bounds = Bounds {
        returned,
        total: if truncated { announced } else { Some(returned) },
        truncated,
        next_cursor: None,
        refinement_hint: truncated.then(|| format!("Only the first {limit} bytes were read: ask for a smaller page.")),
    };
    Ok(ToolSuccess { bounds: Some(bounds), ..ToolSuccess::new(result) })
}

impl ContentType {
    fn of(headers: &HeaderMap) -> Result<Self, ToolFailure> {
        if headers.get(CONTENT_ENCODING).is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
        {
            return Err(refused("the response is compressed although the request did not allow it"));
        }
        let Some(header) = headers.get(CONTENT_TYPE) else { return Ok(Self { essence: None, encoding: UTF_8 }) };
        let header = header.to_str().map_err(|_| refused("the response's content type cannot be read"))?;
        let mut fields = header.split(';').map(str::trim);
        let essence = fields.next().unwrap_or_default().to_ascii_lowercase();
        if !is_text(&essence) {
            return Err(refused(&format!("the response is {essence:.100}; only text and JSON can be read")));
        }
        let encoding = match fields.find_map(charset) {
            Some(label) => Encoding::for_label(label.as_bytes())
                .ok_or_else(|| refused(&format!("the response's charset {label:.100} is not known")))?,
            None => UTF_8,
        };
        Ok(Self { essence: Some(essence), encoding })
    }

    fn is_json(&self) -> bool {
        self.essence.as_deref().is_some_and(|essence| essence == "application/json" || essence.ends_with("+json"))
    }

    fn decode(&self, bytes: &[u8], truncated: bool) -> Result<String, ToolFailure> {
        if self.essence.is_none() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_some()) {
            return Err(refused("the response does not say what it is and is not text"));
        }
        let mut decoder = self.encoding.new_decoder();
        let capacity = decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(bytes.len());
        let mut text = String::with_capacity(capacity);
        // A cut may go through a character; what is left of it is not an error and is not shown.
        let _ = decoder.decode_to_string(bytes, &mut text, !truncated);
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
