//! What a run wants written: events that the workflow itself causes, each with a key that makes its delivery idempotent.

use serde::{Deserialize, Serialize};

use crate::{
    envelope::Outbox,
    event::{EventBody, NewEvent},
};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Outgoing {
    events: Vec<NewEvent>,
    /// Numbers the keys; it goes on across continue-as-new.
    next_key: u64,
}

impl Outgoing {
    pub fn event(&mut self, body: EventBody) {
        self.next_key += 1;
        self.events.push(NewEvent::new(format!("w/{}", self.next_key), body));
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Everything not yet handed to an activity.
    pub fn take(&mut self) -> Outbox {
        Outbox { messages: Vec::new(), events: std::mem::take(&mut self.events) }
    }
}
