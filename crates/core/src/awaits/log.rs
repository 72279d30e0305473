//! Awaits read from a log, for when no worker answers.

use super::AwaitView;
use crate::event::{Event, EventBody};

/// Awaits that a log opened and did not close.
pub fn pending_in(log: &[Event]) -> Vec<AwaitView> {
    let mut pending: Vec<AwaitView> = Vec::new();
    for event in log {
        match event.body() {
            Ok(EventBody::AwaitOpened { item } | EventBody::ChildAwaitOpened { item }) => pending.push(item),
            Ok(EventBody::AwaitClosed { await_id, .. } | EventBody::ChildAwaitClosed { await_id, .. }) => {
                pending.retain(|item| item.id != await_id);
            }
            _ => {}
        }
    }
    pending
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn a_log_knows_what_is_pending() {
        let event =
            |kind: &str, data: Value| Event { seq: 1, at: Timestamp(0), key: "k".into(), kind: kind.into(), data };
        let opened = |id: &str| {
            let item = json!({"id": id, "kind": "clarification", "prompt": "?", "openedAt": 0, "onExpiry": "replan"});
            event("await_opened", json!({"item": item}))
        };
        let log = [
            opened("await-1"),
            opened("await-2"),
            event("await_closed", json!({"awaitId": "await-1", "outcome": "answered"})),
            event("hologram", json!({})),
        ];
        let pending: Vec<String> = pending_in(&log).into_iter().map(|item| item.id.to_string()).collect();
        assert_eq!(pending, ["await-2"]);
    }
}
