//! Rows of push configs.

use serde::{Deserialize, Serialize};
use windlass_core::{
    ids::{RunId, WorkspaceId},
    limits::PUSH_CONFIGS,
    time::Timestamp,
};

use crate::{Result, StoreError};

/// Where updates of a run are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPushConfig {
    pub run: RunId,
    pub id: String,
    pub workspace: WorkspaceId,
    /// The version of the protocol that the receiver reads.
    pub version: String,
    /// The name of the run's secret that has the address and the credentials.
    pub secret: String,
}

/// A push config as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushConfigRow {
    pub run: RunId,
    pub id: String,
    pub workspace: WorkspaceId,
    pub version: String,
    pub secret: String,
    pub created_at: Timestamp,
    /// Nothing more is sent since then.
    pub ended_at: Option<Timestamp>,
    /// Why the delivery was given up.
    pub error: Option<String>,
}

/// Where a config sends, and with which credentials. The vault has it; it has no `Debug`, because all of it is secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushTarget {
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The scheme of the `Authorization` header, and what follows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

/// Refuses one config more than the limit. `others` counts the run's configs with other ids.
pub(crate) fn check_push_limit(others: usize) -> Result<()> {
    if others < PUSH_CONFIGS {
        return Ok(());
    }
    let problem = format!("a run has at most {PUSH_CONFIGS}; delete one first");
    Err(StoreError::InvalidArgument { argument: "the push config", problem })
}
