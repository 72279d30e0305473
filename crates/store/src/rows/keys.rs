//! Keys that programs show to the API. Making, hashing and comparing them is the API's.

use std::fmt;

use serde::Serialize;
use windlass_core::{
    ids::{AgentId, WorkspaceId},
    time::{Millis, Timestamp},
};

/// A key as it is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiKey {
    /// What a key is looked up by; part of the key itself and no secret.
    pub id: String,
    pub workspace: WorkspaceId,
    pub name: String,
    /// The beginning of the key, so that people recognise it.
    pub prefix: String,
    pub hash: KeyHash,
    pub scopes: Vec<String>,
    /// What approval rules ask for.
    pub roles: Vec<String>,
    /// The only agents it may start; any if absent.
    pub agents: Option<Vec<AgentId>>,
    /// From then on it opens nothing; never if absent.
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyRow {
    pub id: String,
    pub workspace: WorkspaceId,
    pub name: String,
    pub prefix: String,
    #[serde(skip)]
    pub hash: KeyHash,
    pub scopes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    pub agents: Option<Vec<AgentId>>,
    pub created_at: Timestamp,
    /// To the minute.
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
}

/// How exactly it is known when a key was last used.
const GRAIN: Millis = Millis(60_000);

impl ApiKeyRow {
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    pub(crate) fn use_is_worth_noting(&self, now: Timestamp) -> bool {
        self.last_used_at.is_none_or(|last| last.after(GRAIN) <= now)
    }
}

/// The hash of a key. No log shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyHash(pub Vec<u8>);

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHash({} bytes)", self.0.len())
    }
}
