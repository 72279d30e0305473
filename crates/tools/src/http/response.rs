//! A response as the tool's result: JSON, text, an image or a document.

use reqwest::Response;
use serde_json::json;
use windlass_core::{
    canonical::CanonicalJson,
    envelope::{Bounds, ToolErrorKind},
    message::Part,
};

use super::{media::Media, page};
use crate::{
    ToolFailure, ToolSuccess,
    egress::{ContentType, Credentials, read_up_to},
};

/// What is read of a response.
pub(super) const LIMIT: usize = 4 * 1024 * 1024;

pub(super) async fn read(
    mut response: Response,
    next_cursor: Option<&str>,
    credentials: &Credentials,
) -> Result<ToolSuccess, ToolFailure> {
    let server_data = Some(json!({"status": response.status().as_u16()}));
    let content_type = ContentType::of(response.headers())?;
    let media = content_type.essence.as_deref().and_then(Media::of);
    let readable = media.is_some() || content_type.is_text();
    let read = read_up_to(&mut response, if readable { LIMIT } else { 0 }).await?;
    let done = |success: ToolSuccess| Ok(ToolSuccess { server_data, ..success });
    if read.bytes.is_empty() && !read.truncated {
        return done(ToolSuccess::new(CanonicalJson::null()));
    }
    let essence = content_type.essence.as_deref().unwrap_or_default();
    if let Some(media) = media {
        if read.truncated {
            return Err(failed(format!("the response is {essence} of more than {LIMIT} bytes; ask for a smaller one")));
        }
        return done(ToolSuccess { content: vec![media.part(&read.bytes)], ..ToolSuccess::new(CanonicalJson::null()) });
    }
    if !readable {
        return Err(failed(format!(
            "the response is {essence:.100}; only JSON, text, images, PDF and office documents can be read"
        )));
    }
    let text = credentials.redact_result(content_type.decode(&read)?);
    let parsed = if content_type.is_json() && !read.truncated { CanonicalJson::parse(&text).ok() } else { None };
    let cursor = match (&parsed, next_cursor) {
        (Some(result), Some(pointer)) => page::cursor_at(pointer, result),
        _ => page::linked(response.headers(), response.url()).map(|cursor| credentials.redact_result(cursor)),
    };
    let bounds = (read.truncated || cursor.is_some()).then(|| Bounds {
        returned: read.bytes.len() as u64,
        total: None,
        truncated: true,
        next_cursor: cursor,
        refinement_hint: read
            .truncated
            .then(|| format!("Only the first {LIMIT} bytes were read: ask for a smaller page.")),
    });
    let success = match parsed {
        Some(result) => ToolSuccess::new(result),
        None => ToolSuccess { content: vec![Part::text(text)], ..ToolSuccess::new(CanonicalJson::null()) },
    };
    done(ToolSuccess { bounds, ..success })
}

fn failed(message: String) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::ToolFailed, message)
}
