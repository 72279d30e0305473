//! Bodies above the inline limit: reading them from the store, and turning call records into what the model reads.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use serde_json::json;
use temporalio_sdk::activities::ActivityError;
use windlass_core::{
    body::Body,
    canonical::{CanonicalJson, Digest},
    envelope::{BlobRef, Bounds, Outbox, OutboxMessage, ToolCallOutput},
    message::{Content, Message, Part, Role, attach_files, detach_files, stored_files},
};

use crate::{RunActivities, definitions::Prepared, failures};

impl RunActivities {
    pub(crate) async fn stored(&self, blob: BlobRef) -> Result<CanonicalJson, ActivityError> {
        if let Some(recent) = self.recent_bodies.get(&blob.digest) {
            return Ok(recent);
        }
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
                None => {
                    let mut parts = self.result_parts(&output).await?;
                    parts.extend(output.bounds.as_ref().filter(|bounds| bounds.truncated).map(rest_of));
                    (self.result_content(&output).await?, parts)
                }
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

    /// The conversation with the bytes of its images and documents, for a model that is to see them. Without any in the
    /// store it is the same one. Each file is read once, however many messages refer to it.
    pub(crate) async fn with_files(&self, messages: Arc<Vec<Message>>) -> Result<Arc<Vec<Message>>, ActivityError> {
        let mut files = BTreeMap::new();
        for blob in messages.iter().flat_map(|message| stored_files(&message.parts)) {
            if let Entry::Vacant(missing) = files.entry(blob.digest) {
                let base64 = self.stored(blob).await?.decode();
                missing.insert(base64.map_err(|error| failures::permanent("content_unreadable", error.to_string()))?);
            }
        }
        if files.is_empty() {
            return Ok(messages);
        }
        let mut filled = (*messages).clone();
        for message in &mut filled {
            attach_files(&mut message.parts, &files);
        }
        Ok(filled.into())
    }

    /// Stores the files of parts that do not fit. The parts refer to them.
    pub(crate) async fn detach_files(&self, parts: &mut [Part], inline_limit: u64) -> Result<(), ActivityError> {
        for file in detach_files(parts, inline_limit) {
            self.put(Some(file)).await?;
        }
        Ok(())
    }
}

/// Tells the model that a result is part of a larger one, and how to get the rest.
fn rest_of(bounds: &Bounds) -> Part {
    let cursor = bounds.next_cursor.as_ref().map(|cursor| format!("The next page has the cursor {cursor}."));
    let words = [Some("There is more than this result.".to_owned()), cursor, bounds.refinement_hint.clone()];
    Content::Text { text: words.into_iter().flatten().collect::<Vec<_>>().join(" ") }.into()
}

fn answer_text(body: CanonicalJson) -> CanonicalJson {
    match body.decode::<Message>() {
        Ok(message) => serde_json::Value::String(message.plain_text()).into(),
        Err(_) => body,
    }
}
