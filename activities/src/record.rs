//! `windlass.record`: writes the workflow's messages and events in one transaction.

use temporalio_sdk::activities::ActivityError;
use windlass_core::{
    envelope::{BlobRef, RecordInput, RecordOutput, VERSION},
    event::{EventBody, NewEvent},
    message::Message,
};
use windlass_store::RecordBatch;

use crate::{RunActivities, failures};

impl RunActivities {
    pub(crate) async fn record_outbox(&self, input: RecordInput) -> Result<RecordOutput, ActivityError> {
        let mut outbox = input.outbox;
        let mut events = std::mem::take(&mut outbox.events);
        self.announce(&input.run_id, &events).await?;
        let messages = self.messages(outbox).await?;
        self.fill_in(&mut events, input.final_ref).await?;
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

    /// Fills in bodies above the inline limit that readers of the log need: arguments of calls that are handed out, and the
    /// model's last text.
    async fn fill_in(&self, events: &mut [NewEvent], last: Option<BlobRef>) -> Result<(), ActivityError> {
        for event in events {
            match (&mut event.body, last) {
                (EventBody::LocalToolCall { args: args @ None, args_ref, .. }, _) => {
                    if let Some(stored) = args_ref.take() {
                        *args = Some(self.stored(stored).await?);
                    }
                }
                (EventBody::Result { text, .. } | EventBody::Error { partial_text: Some(text), .. }, Some(stored)) => {
                    let answer: Message = self
                        .stored(stored)
                        .await?
                        .decode()
                        .map_err(|error| failures::permanent("message_unreadable", error.to_string()))?;
                    *text = answer.plain_text();
                }
                _ => {}
            }
        }
        Ok(())
    }
}
