//! Bodies above the inline limit: reading them from the store, and turning call records into what the model reads.

use std::sync::Arc;

use serde_json::json;
use temporalio_sdk::activities::ActivityError;
use windlass_core::{
    body::Body,
    canonical::{CanonicalJson, Digest},
    envelope::{BlobRef, Outbox, OutboxMessage, ToolCallOutput},
    message::{Content, DocumentSource, ImageSource, Message, Part, Role},
};

use crate::{RunActivities, definitions::Prepared, failures};

impl RunActivities {
    pub(crate) async fn stored(&self, blob: BlobRef) -> Result<CanonicalJson, ActivityError> {
        let body = self.store.blob(&blob.digest).await.map_err(|error| failures::store(&error))?;
        body.ok_or_else(|| failures::permanent("blob_missing", format!("the store has no body {}", blob.digest)))
    }

    /// The text of a body, from wherever it is.
    pub(crate) async fn text(&self, body: Body) -> Result<CanonicalJson, ActivityError> {
        match body {
            Body::Inline(json) => Ok(json),
            Body::Stored(blob) => self.stored(blob).await,
        }
    }

    pub(crate) async fn definition(&self, digest: Digest) -> Result<Arc<Prepared>, ActivityError> {
        if let Some(known) = self.definitions.get(digest) {
            return Ok(known);
        }
        let body = self.store.blob(&digest).await.map_err(|error| failures::store(&error))?;
        let body = body.ok_or_else(|| {
            failures::permanent("agent_missing", format!("the store has no agent definition {}", digest.short()))
        })?;
        let definition = body.decode().map_err(|error| {
            failures::permanent("agent_unreadable", format!("agent definition {}: {error}", digest.short()))
        })?;
        Ok(self.definitions.keep(digest, definition))
    }

    /// The messages of an outbox, bodies included.
    pub(crate) async fn messages(&self, outbox: Outbox) -> Result<Vec<Message>, ActivityError> {
        let mut messages = Vec::new();
        for entry in outbox.messages {
            messages.push(match entry {
                OutboxMessage::Message { message } => message,
                OutboxMessage::ToolResults { results } => self.results_message(results).await?,
            });
        }
        Ok(messages)
    }

    /// The results of a batch as one user message, in call order.
    pub(crate) async fn results_message(&self, results: Vec<ToolCallOutput>) -> Result<Message, ActivityError> {
        let mut parts = Vec::with_capacity(results.len());
        for output in results {
            let (content, inner) = match &output.error {
                None => (self.result_content(&output).await?, self.result_parts(&output).await?),
                Some(error) => {
                    let mut content = json!({"error": error.message, "kind": error.kind});
                    if let Some(hint) = &output.retry_hint {
                        content["hint"] = json!(hint);
                    }
                    (content.into(), Vec::new())
                }
            };
            let is_error = output.error.is_some();
            let result = Content::ToolResult { tool_use_id: output.tool_call_id, content, parts: inner, is_error };
            parts.push(result.into());
        }
        Ok(Message::new(Role::User, parts))
    }

    async fn result_content(&self, output: &ToolCallOutput) -> Result<CanonicalJson, ActivityError> {
        match output.result() {
            None => Ok(CanonicalJson::null()),
            Some(Body::Inline(json)) => Ok(json),
            Some(Body::Stored(blob)) => {
                let body = self.stored(blob).await?;
                // A child run's answer is stored as the message it was.
                Ok(if output.run_link.is_some() { answer_text(body) } else { body })
            }
        }
    }

    async fn result_parts(&self, output: &ToolCallOutput) -> Result<Vec<Part>, ActivityError> {
        let Some(content) = output.content() else { return Ok(Vec::new()) };
        let content = self.text(content).await?;
        content.decode().map_err(|error| failures::permanent("content_unreadable", error.to_string()))
    }

    /// The conversation with its images and documents in it, for a model that is to see them. Without any in the store
    /// it is the same one.
    pub(crate) async fn with_media(&self, messages: Arc<Vec<Message>>) -> Result<Arc<Vec<Message>>, ActivityError> {
        if !messages.iter().flat_map(|message| &message.parts).any(has_blob) {
            return Ok(messages);
        }
        let mut filled = (*messages).clone();
        for part in filled.iter_mut().flat_map(|message| &mut message.parts) {
            self.fill_media(part).await?;
        }
        Ok(filled.into())
    }

    async fn fill_media(&self, part: &mut Part) -> Result<(), ActivityError> {
        match &mut part.content {
            Content::Image { source, .. } => {
                if let ImageSource::Blob(blob) = source {
                    *source = ImageSource::Bytes(self.base64(*blob).await?);
                }
            }
            Content::Document { source, .. } => {
                if let DocumentSource::Blob(blob) = source {
                    *source = DocumentSource::Bytes(self.base64(*blob).await?);
                }
            }
            Content::ToolResult { parts, .. } => {
                for part in parts {
                    Box::pin(self.fill_media(part)).await?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    async fn base64(&self, blob: BlobRef) -> Result<String, ActivityError> {
        let body = self.stored(blob).await?;
        body.decode().map_err(|error| failures::permanent("content_unreadable", error.to_string()))
    }
}

fn has_blob(part: &Part) -> bool {
    match &part.content {
        Content::Image { source, .. } => matches!(source, ImageSource::Blob(_)),
        Content::Document { source, .. } => matches!(source, DocumentSource::Blob(_)),
        Content::ToolResult { parts, .. } => parts.iter().any(has_blob),
        _ => false,
    }
}

fn answer_text(body: CanonicalJson) -> CanonicalJson {
    match body.decode::<Message>() {
        Ok(message) => serde_json::Value::String(message.plain_text()).into(),
        Err(_) => body,
    }
}
