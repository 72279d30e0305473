//! Bodies that did not travel: reading them from the store, and turning call records into what the model reads.

use std::sync::Arc;

use serde_json::{Value, json};
use temporalio_sdk::activities::ActivityError;
use windlass_core::{
    canonical::Digest,
    envelope::{BlobRef, Outbox, OutboxMessage, ToolCallOutput},
    message::{Message, Part, Role},
};

use crate::{RunActivities, definitions::Prepared, failures};

impl RunActivities {
    pub(crate) async fn body(&self, stored: BlobRef) -> Result<Value, ActivityError> {
        let body = self.store.blob(&stored.digest).await.map_err(|error| failures::store(&error))?;
        body.ok_or_else(|| failures::permanent("blob_missing", format!("the store has no body {}", stored.digest)))
    }

    pub(crate) async fn definition(&self, digest: Digest) -> Result<Arc<Prepared>, ActivityError> {
        if let Some(known) = self.definitions.get(digest) {
            return Ok(known);
        }
        let body = self.store.blob(&digest).await.map_err(|error| failures::store(&error))?;
        let body = body.ok_or_else(|| {
            failures::permanent("agent_missing", format!("the store has no agent definition {}", digest.short()))
        })?;
        let definition = serde_json::from_value(body).map_err(|error| {
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
            let content = match (&output.error, output.result_ref) {
                (None, Some(stored)) => {
                    let body = self.body(stored).await?;
                    // A child run's answer is stored as the message it was.
                    if output.run_link.is_some() { answer_text(body) } else { body }
                }
                (None, None) => output.result.unwrap_or(Value::Null),
                (Some(error), _) => {
                    let mut content = json!({"error": error.message, "kind": error.kind});
                    if let Some(hint) = &output.retry_hint {
                        content["hint"] = json!(hint);
                    }
                    content
                }
            };
            parts.push(Part::ToolResult {
                tool_use_id: output.tool_call_id,
                content,
                is_error: output.error.is_some(),
            });
        }
        Ok(Message::new(Role::User, parts))
    }
}

fn answer_text(body: Value) -> Value {
    match serde_json::from_value::<Message>(body.clone()) {
        Ok(message) => Value::String(message.plain_text()),
        Err(_) => body,
    }
}
