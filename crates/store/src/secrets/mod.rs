//! Secrets of a workspace: encrypted before they reach a database, decrypted only for the activity that uses them.
//!
//! The adapters store and return [`SealedSecret`]s and never see a value or a key. The [`Vault`] has the [`KeyRing`] and
//! is what the rest of the program uses. Operators set secrets by name. The API server splits a secret out of a spec: such
//! a secret has a generated name and an owner, the run or the session of the spec, and is deleted with its owner.

mod keyring;
mod seal;
mod signing;
mod vault;

#[cfg(test)]
mod tests;

use serde::Serialize;
use windlass_core::{
    canonical::Digest,
    ids::{RunId, SessionId, WorkspaceId},
    secret::{NAME_CHARS, SecretRef, is_name},
    time::Timestamp,
};

use crate::{Result, StoreError};

pub use self::{
    keyring::{KeyRing, SecretKey},
    signing::{ID_HEADER, SIGNATURE_HEADER, SigningKey, TIMESTAMP_HEADER},
    vault::{Reader, Rotated, Vault},
};

/// Bytes of a value, at most.
pub const MAX_VALUE: usize = 64 * 1024;

/// Secrets that operators of one workspace may set.
pub const MAX_NAMED: u64 = 1000;

/// Secrets that one run or one session may own.
pub const MAX_OWNED: u64 = 100;

/// How generated names begin. Operators cannot use it.
const GENERATED: &str = "split.";

/// The workspace of the installation's own secrets. Callers and operators cannot have it: it is no valid id.
pub(crate) const INSTALLATION: &str = "~installation";

/// The run or the session whose spec a secret was split from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretOwner {
    Run(RunId),
    Session(SessionId),
}

impl SecretOwner {
    /// As text, for associated data and generated names.
    fn text(&self) -> String {
        match self {
            Self::Run(run) => format!("run:{run}"),
            Self::Session(session) => format!("session:{session}"),
        }
    }

    /// The name of the secret that was split from `field` of this owner's spec. The same field has the same name, so
    /// that a repeated request leads to the same spec.
    pub fn secret_name(&self, field: &str) -> String {
        let digest = Digest::of_json(&serde_json::json!(["windlass.secret.name.v1", self.text(), field]));
        format!("{GENERATED}{}", &digest.to_string()[..32])
    }

    /// Whether a text is nothing but a reference to a secret that was split from a spec.
    pub fn is_split_reference(text: &str) -> bool {
        matches!(SecretRef::parse(text), Some(SecretRef::Secret(name)) if name.starts_with(GENERATED))
    }

    pub(crate) fn run(&self) -> Option<&str> {
        match self {
            Self::Run(run) => Some(run.as_str()),
            Self::Session(_) => None,
        }
    }

    pub(crate) fn session(&self) -> Option<&str> {
        match self {
            Self::Run(_) => None,
            Self::Session(session) => Some(session.as_str()),
        }
    }

    /// From a row's two columns, at most one of which has a value.
    pub(crate) fn from_columns(run: Option<String>, session: Option<String>) -> Option<Self> {
        run.map(|run| Self::Run(RunId::new(run))).or_else(|| session.map(|it| Self::Session(SessionId::new(it))))
    }
}

/// A secret as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedSecret {
    pub workspace: WorkspaceId,
    pub name: String,
    /// `None` if an operator set it.
    pub owner: Option<SecretOwner>,
    /// Which key of the ring encrypted it.
    pub key_id: String,
    /// 96 random bits.
    pub nonce: Vec<u8>,
    /// With the authentication tag at its end.
    pub ciphertext: Vec<u8>,
}

/// What is listed of a secret: everything but its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretRow {
    pub name: String,
    pub key_id: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl SealedSecret {
    /// How many secrets may share this one's owner, and what that is called.
    pub(crate) fn limit(&self) -> (u64, &'static str) {
        match self.owner {
            None => (MAX_NAMED, "workspace"),
            Some(SecretOwner::Run(_)) => (MAX_OWNED, "run"),
            Some(SecretOwner::Session(_)) => (MAX_OWNED, "session"),
        }
    }

    /// Refuses one secret more than the limit. `others` counts the secrets with the same owner under other names.
    pub(crate) fn check_limit(&self, others: u64) -> Result<()> {
        match self.limit() {
            (limit, owner) if others >= limit => {
                Err(StoreError::SecretLimit { workspace: self.workspace.clone(), owner, limit })
            }
            _ => Ok(()),
        }
    }
}

/// Whether text is a name as operators may choose it.
fn check_name(name: &str) -> Result<()> {
    let problem = match () {
        () if name.is_empty() || name.len() > NAME_CHARS => format!("use 1 to {NAME_CHARS} characters"),
        () if !is_name(name) => "use letters, digits and the characters `_`, `.` and `-`".to_owned(),
        () if name.starts_with(GENERATED) => format!("names that begin with `{GENERATED}` are generated"),
        () => return Ok(()),
    };
    Err(StoreError::InvalidArgument { argument: "the secret's name", problem })
}

/// Whether a value may be stored.
fn check_value(value: &str) -> Result<()> {
    let problem = match value.len() {
        0 => "it is empty; remove the secret instead".to_owned(),
        bytes if bytes > MAX_VALUE => format!("it has {bytes} bytes; the limit is {MAX_VALUE}"),
        _ => return Ok(()),
    };
    Err(StoreError::InvalidArgument { argument: "the secret's value", problem })
}
