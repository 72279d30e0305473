//! API keys: random, and stored as hashes.
//!
//! A key has 244 random bits, so it cannot be guessed from its hash, however fast the hash is; a slow hash would only
//! slow down every request. A key's id is another hash of it: any text can be looked up, and a lookup reveals nothing.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use windlass_core::ids::{AgentId, WorkspaceId};
use windlass_store::{KeyHash, NewApiKey};

/// What the keys of this server begin with.
const PREFIX: &str = "wl_";
/// How much of a key people see when keys are listed.
const SHOWN: usize = 7;
const ID_BYTES: usize = 10;

/// A key that a caller sent, or one that was just created.
#[derive(Clone)]
pub struct ApiKey(SecretString);

/// A new key and its row in the store. The key itself is shown once and not stored.
#[derive(Debug, Clone)]
pub struct MadeKey {
    pub key: ApiKey,
    pub row: NewApiKey,
}

impl ApiKey {
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// From two random UUIDs: 244 random bits.
    pub fn random() -> Self {
        let random = || uuid::Uuid::new_v4().simple().to_string();
        Self::new(format!("{PREFIX}{}{}", random(), random()))
    }

    /// The key's id in the store.
    pub fn id(&self) -> String {
        let hash = self.mac(b"windlass api key id");
        format!("key-{}", hex::encode(&hash[..ID_BYTES]))
    }

    pub fn hash(&self) -> KeyHash {
        KeyHash(self.mac(b"windlass api key"))
    }

    /// Takes as long for a wrong hash as for the right one.
    pub fn matches(&self, hash: &KeyHash) -> bool {
        self.mac(b"windlass api key").ct_eq(&hash.0).into()
    }

    /// The text of the key, which is shown once, when it is created.
    pub fn reveal(&self) -> &str {
        self.0.expose_secret()
    }

    /// The row of this key. Without an expiry in the row it never expires.
    pub fn row(
        &self,
        workspace: WorkspaceId,
        name: &str,
        scopes: Vec<String>,
        agents: Option<Vec<AgentId>>,
    ) -> NewApiKey {
        NewApiKey {
            id: self.id(),
            workspace,
            name: name.to_owned(),
            // Of a short key, which was chosen by a person, almost nothing is shown.
            prefix: self.reveal().chars().take(SHOWN.min(self.reveal().len() / 4)).collect(),
            hash: self.hash(),
            roles: Vec::new(),
            scopes,
            agents,
            expires_at: None,
        }
    }

    /// With a label, so that the id does not reveal the hash.
    fn mac(&self, label: &[u8]) -> Vec<u8> {
        // HMAC takes keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(label) else { return Vec::new() };
        mac.update(self.0.expose_secret().as_bytes());
        mac.finalize().into_bytes().to_vec()
    }
}

impl MadeKey {
    pub fn new(workspace: WorkspaceId, name: &str, scopes: Vec<String>, agents: Option<Vec<AgentId>>) -> Self {
        let key = ApiKey::random();
        let row = key.row(workspace, name, scopes, agents);
        Self { key, row }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_hash_and_never_shown() {
        let made = MadeKey::new("acme".into(), "ci", vec!["*".into()], None);
        let shown = ApiKey::new(made.key.reveal());
        assert_eq!(shown.id(), made.row.id);
        assert!(shown.matches(&made.row.hash));
        assert!(!ApiKey::random().matches(&made.row.hash));
        assert!(!shown.matches(&KeyHash(Vec::new())));
        let debug = format!("{made:?}");
        assert!(!debug.contains(made.key.reveal()) && !debug.contains(&hex::encode(&made.row.hash.0)), "{debug}");
        assert_eq!((made.key.reveal().len(), made.row.prefix.len()), (67, 7));
    }

    #[test]
    fn a_list_of_keys_reveals_no_key() {
        let shown = |key: &str| ApiKey::new(key).row("acme".into(), "dev", Vec::new(), None).prefix;
        assert_eq!(
            (shown("k"), shown("secret-1"), shown("mantyx_test_key")),
            (String::new(), "se".into(), "man".into())
        );
    }

    #[test]
    fn the_id_is_no_part_of_the_hash() {
        let key = ApiKey::new("mantyx_test_key");
        let id = key.id();
        assert!(!hex::encode(key.hash().0).contains(id.trim_start_matches("key-")));
    }
}
