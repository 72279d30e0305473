//! Text or JSON of a response as the tool's result.

use reqwest::Response;
use serde_json::{Value, json};
use windlass_core::envelope::{Bounds, ToolErrorKind};

use crate::{
    ToolFailure, ToolSuccess,
    egress::{ContentType, read_up_to},
};

/// The response as the tool's result.
pub(super) async fn read(mut response: Response, limit: usize) -> Result<ToolSuccess, ToolFailure> {
    let status = response.status().as_u16();
    let content_type = ContentType::of(response.headers())?;
    if !content_type.is_text() {
        let essence = content_type.essence.unwrap_or_default();
        let message = format!("the response is {essence:.100}; only text and JSON can be read");
        return Err(ToolFailure::new(ToolErrorKind::ToolFailed, message));
    }
    let announced = response.content_length();
    let read = read_up_to(&mut response, limit).await?;
    let truncated = read.truncated;

    let text = content_type.decode(&read)?;
    let parsed: Option<Value> =
        if content_type.is_json() && !truncated { serde_json::from_str(&text).ok() } else { None };
    let mut result = json!({"status": status, "contentType": content_type.essence, "truncated": truncated});
    match parsed {
        Some(parsed) => result["json"] = parsed,
        None => result["body"] = Value::String(text),
    }
    let returned = read.bytes.len() as u64;
    let bounds = Bounds {
        returned,
        total: if truncated { announced } else { Some(returned) },
        truncated,
        next_cursor: None,
        refinement_hint: truncated.then(|| format!("Only the first {limit} bytes were read: ask for a smaller page.")),
    };
    Ok(ToolSuccess { bounds: Some(bounds), ..ToolSuccess::new(result) })
}
