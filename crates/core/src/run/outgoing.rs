//! Events of the workflow that are not yet written. Each has a key that makes its delivery idempotent.

use serde::{Deserialize, Serialize};

use crate::event::{EventBody, NewEvent};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Outgoing {
    events: Vec<NewEvent>,
    /// How many of `events` are part of the plan in flight.
    in_flight: usize,
    /// The number of the next key. It continues across continue-as-new.
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

    /// Removes and returns all events, for an activity that is retried until it succeeds.
    pub fn take(&mut self) -> Vec<NewEvent> {
        self.in_flight = 0;
        std::mem::take(&mut self.events)
    }

    /// Returns all events, for an activity that may fail permanently. They stay until [`sent`](Self::sent) confirms them.
    pub(super) fn send(&mut self) -> Vec<NewEvent> {
        self.in_flight = self.events.len();
        self.events.clone()
    }

    pub(super) fn sent(&mut self) {
        self.events.drain(..std::mem::take(&mut self.in_flight));
    }
}
