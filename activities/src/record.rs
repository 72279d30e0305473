//! `windlass.record`: what the workflow caused, written in one transaction.

use temporalio_sdk::activities::ActivityError;
use windlass_core::{
    envelope::{RecordInput, RecordOutput, VERSION},
    event::EventBody,
    message::Message,
};
use windlass_store::RecordBatch;

use crate::{RunActivities, failures};

impl RunActivities {
    pub(crate) async fn record_outbox(&self, input: RecordInput) -> Result<RecordOutput, ActivityError> {
        let mut outbox = input.outbox;
        let mut events = std::mem::take(&mut outbox.events);
        let messages = self.messages(outbox).await?;
        if let Some(stored) = input.final_ref {
            let answer: Message = serde_json::from_value(self.body(stored).await?)
                .map_err(|error| failures::permanent("message_unreadable", error.to_string()))?;
            for event in &mut events {
                if let EventBody::Result { text, .. } | EventBody::Error { partial_text: Some(text), .. } =
                    &mut event.body
                {
                    *text = answer.plain_text();
                }
            }
        }
        let batch = RecordBatch {
            run: input.run_id,
            head: input.head,
            messages,
            events,
            status: input.status,
            phase: input.phase,
            closes_session_turn: input.closes_session_turn,
        };
        let head = self.store.record(batch).await.map_err(|error| failures::store(&error))?;
        Ok(RecordOutput { v: VERSION, head })
    }
}
