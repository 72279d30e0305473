//! Loading a document from its address.

use std::time::Duration;

use reqwest::Url;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::OpenApiSource,
    envelope::{RetryReason, ToolErrorKind},
};

use super::OpenApiError;
use crate::{
    Egress, SecretSource, ToolFailure,
    egress::{ContentType, Request, passing, read_up_to, retry_advice, timed_out},
};

const LIMIT: usize = 8 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(30);

/// The document at the toolset's `url`, with the credentials that its calls have.
pub async fn fetch(
    egress: &Egress,
    source: &OpenApiSource,
    secrets: &dyn SecretSource,
    cancel: &CancellationToken,
) -> Result<Value, ToolFailure> {
    let loading = tokio::time::timeout(TIMEOUT, load(egress, source, secrets));
    match cancel.run_until_cancelled(loading).await {
        Some(Ok(outcome)) => outcome,
        Some(Err(_)) => Err(timed_out()),
        None => Err(ToolFailure::new(ToolErrorKind::Cancelled, "loading the OpenAPI document was cancelled")),
    }
}

async fn load(egress: &Egress, source: &OpenApiSource, secrets: &dyn SecretSource) -> Result<Value, ToolFailure> {
    let failed = |message: String| ToolFailure::new(ToolErrorKind::ToolFailed, message);
    let url = source.url.as_deref().ok_or_else(|| failed(OpenApiError::NoSource.to_string()))?;
    let url = Url::parse(url).map_err(|_| failed("the url of the OpenAPI document is not absolute".to_owned()))?;
    let credentials = egress.credentials(&source.access, secrets).await?;
    let request = Request::get(url, credentials.headers, source.access.allow_private);
    let mut response = egress.send(request).await?;
    let status = response.status();
    if !status.is_success() {
        let message = format!("the server of the OpenAPI document answered {}; check url and headers", status.as_u16());
        return Err(match status.as_u16() {
            408 | 425 | 429 | 500.. => {
                let advice = retry_advice(response.headers());
                passing(ToolErrorKind::ToolUnavailable, RetryReason::ToolUnavailable, &message, advice)
            }
            _ => failed(message),
        });
    }
    let content_type = ContentType::of(response.headers())?;
    let read = read_up_to(&mut response, LIMIT).await?;
    if read.truncated {
        return Err(failed(format!("the OpenAPI document has more than {LIMIT} bytes; use a smaller one")));
    }
    let text = content_type.decode(&read)?;
    serde_json::from_str(&text)
        .map_err(|_| failed("the OpenAPI document is not JSON; if it is YAML, convert it to JSON".to_owned()))
}
