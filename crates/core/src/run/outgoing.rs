//! What a run wants written: events that the workflow itself causes, each with a key that makes its delivery idempotent.

use serde::{Deserialize, Serialize};

use crate::event::{EventBody, NewEvent};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Outgoing {
    events: Vec<NewEvent>,
    /// How many of `events` a plan took along that has not succeeded yet.
    in_flight: usize,
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

    /// Everything not yet written, to be written by an activity that is retried until it succeeds.
    pub fn take(&mut self) -> Vec<NewEvent> {
        self.in_flight = 0;
        std::mem::take(&mut self.events)
    }

    /// The same for an activity that may fail for good: the events stay until [`sent`](Self::sent) says it did not.
    pub(super) fn send(&mut self) -> Vec<NewEvent> {
        self.in_flight = self.events.len();
        self.events.clone()
    }

    pub(super) fn sent(&mut self) {
        self.events.drain(..std::mem::take(&mut self.in_flight));
    }
}
