//! The boundary of push notifications: which updates of a run were sent to a receiver, and which is next.

use serde::{Deserialize, Serialize};

use super::version;
use crate::{
    canonical::Digest,
    ids::{InstallationId, RunId},
};

/// A place among the updates of a run: the first `sent` updates of the event `seq` were sent, and all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushCursor {
    pub seq: u64,
    #[serde(default)]
    pub sent: u32,
}

impl PushCursor {
    /// The cursor at the next update, if it is one of the event `seq`, which has this many updates.
    pub fn due(self, seq: u64, updates: u32) -> Option<Self> {
        let sent = if seq == self.seq { self.sent } else { 0 };
        (seq >= self.seq && sent < updates).then_some(Self { seq, sent })
    }

    /// The cursor after the update that it is at.
    #[must_use]
    pub fn next(self) -> Self {
        Self { sent: self.sent + 1, ..self }
    }
}

/// Input of the push workflow and of its activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushInput {
    #[serde(default = "version")]
    pub v: u32,
    pub run_id: RunId,
    pub config_id: String,
    pub cursor: PushCursor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installation: Option<InstallationId>,
}

impl PushInput {
    /// The id of the push workflow.
    pub fn workflow_id(run: &RunId, config: &str) -> String {
        format!("push/{run}/{config}")
    }

    /// The id of the notification at the cursor. It is the same whenever the notification is sent again.
    pub fn notification_id(&self) -> String {
        let PushCursor { seq, sent } = self.cursor;
        let named = serde_json::json!(["windlass.push.v1", self.run_id, self.config_id, seq, sent]);
        format!("msg_{}", &Digest::of_json(&named).to_string()[..32])
    }
}

/// What one execution of the push activity did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushOutput {
    #[serde(default = "version")]
    pub v: u32,
    /// After the notification that was sent, or as it was if there was none to send.
    pub cursor: PushCursor,
    /// Nothing more will be sent: the run has ended, or the config is gone.
    pub ended: bool,
}

/// Input of the activity that ends a config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndPushInput {
    #[serde(default = "version")]
    pub v: u32,
    pub run_id: RunId,
    pub config_id: String,
    /// Why the delivery was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installation: Option<InstallationId>,
}

/// The config is ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndPushOutput {
    #[serde(default = "version")]
    pub v: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_due_in_order_and_once() {
        let log = [(1, 1), (2, 0), (3, 2), (4, 0)];
        let from = |mut cursor: PushCursor| {
            let mut sent = Vec::new();
            while let Some(due) = log.iter().find_map(|(seq, updates)| cursor.due(*seq, *updates)) {
                sent.push((due.seq, due.sent));
                cursor = due.next();
            }
            sent
        };
        let at = |seq, sent| PushCursor { seq, sent };
        assert_eq!(from(PushCursor::default()), [(1, 0), (3, 0), (3, 1)]);
        assert_eq!(from(at(2, 0)), [(3, 0), (3, 1)]);
        assert_eq!(from(at(3, 1)), [(3, 1)]);
        assert_eq!(from(at(3, 2)), []);
        assert_eq!(from(at(9, 0)), []);
    }

    #[test]
    fn a_notification_has_one_id_and_no_two_have_the_same() {
        let at = |run: &str, config: &str, seq, sent| {
            let cursor = PushCursor { seq, sent };
            PushInput { v: 1, run_id: RunId::new(run), config_id: config.to_owned(), cursor, installation: None }
                .notification_id()
        };
        let id = at("acme~run.1", "c", 7, 0);
        assert_eq!(id, at("acme~run.1", "c", 7, 0));
        assert!(id.starts_with("msg_") && !id.contains('.'), "a full stop separates what is signed: {id}");
        for other in [at("acme~run.1", "c", 7, 1), at("acme~run.1", "c", 8, 0), at("acme~run.1", "d", 7, 0)] {
            assert_ne!(other, id);
        }
    }
}
