//! State that clients keep for the server: which run a call started and what it asked, and sessions of older revisions.
//!
//! A client gets it as an opaque text and sends it back, so every server can continue, also after a restart. The text is
//! authenticated (HMAC) with a random key that only the store has, together with the workspace and the API key of the
//! caller: a text that was changed, or that another key was given, is refused.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use secrecy::{ExposeSecret as _, SecretSlice};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::Sha256;
use windlass_core::{
    canonical::Digest,
    ids::{RunId, WorkspaceId},
    time::{Millis, Timestamp},
};
use windlass_store::{KeyHash, Keys, NewApiKey, StoreError};

use super::message::Failure;
use crate::auth::Caller;

/// The row that has the key. It is no API key: ids of those are hashes, and its workspace is none that a caller can have.
const ROW: &str = "mcp-state";
const NO_WORKSPACE: &str = "~mcp";

/// How long a client may take to answer. The run itself may wait longer, see the expiry of its awaits.
pub(super) const ANSWER_WITHIN: Millis = Millis::from_secs(24 * 60 * 60);

/// What a state is for; one of another purpose is refused.
pub(super) trait Purpose: Serialize + DeserializeOwned {
    const LABEL: &'static str;
}

/// A call that waits for answers of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) run: RunId,
    pub(super) tool: String,
    /// Of the arguments of the call.
    pub(super) arguments: Digest,
    /// The keys of what was asked. The key of an approval has the digest of the arguments that were shown.
    pub(super) keys: Vec<String>,
    pub(super) expires_at: Timestamp,
}

impl Purpose for Asked {
    const LABEL: &'static str = "call";
}

/// The session of a client of an older revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Session {
    pub(super) id: String,
    /// The client can ask a person with a form.
    pub(super) elicitation: bool,
}

impl Purpose for Session {
    const LABEL: &'static str = "session";
}

/// One question on the stream of a call, for clients of older revisions: the id of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) run: RunId,
    pub(super) key: String,
}

impl Purpose for Question {
    const LABEL: &'static str = "question";
}

/// The key that authenticates states.
pub(crate) struct StateKey(SecretSlice<u8>);

impl StateKey {
    /// The key of this store, made on first use.
    pub(super) async fn of(store: &dyn Keys) -> Result<Self, StoreError> {
        let row = match store.key(ROW).await? {
            Some(row) => row,
            None => match store.create_key(new_row()).await {
                // Another server was faster.
                Err(StoreError::KeyExists { id }) => {
                    let there = store.key(&id).await?;
                    there.ok_or(StoreError::KeyExists { id })?
                }
                created => created?,
            },
        };
        Ok(Self(row.hash.0.into()))
    }

    pub(super) fn seal<P: Purpose>(&self, caller: &Caller, state: &P) -> String {
        // States are built from texts and numbers; they always serialise.
        let payload = serde_json::to_vec(state).unwrap_or_default();
        let mac = self.mac::<P>(caller, &payload).finalize().into_bytes();
        format!("{}.{}", BASE64_URL_SAFE_NO_PAD.encode(payload), BASE64_URL_SAFE_NO_PAD.encode(mac))
    }

    /// `None` if this server did not give this state to this caller for this purpose.
    pub(super) fn open<P: Purpose>(&self, caller: &Caller, sealed: &str) -> Option<P> {
        let (payload, mac) = sealed.split_once('.')?;
        let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
        let mac = BASE64_URL_SAFE_NO_PAD.decode(mac).ok()?;
        self.mac::<P>(caller, &payload).verify_slice(&mac).ok()?;
        serde_json::from_slice(&payload).ok()
    }

    fn mac<P: Purpose>(&self, caller: &Caller, payload: &[u8]) -> Hmac<Sha256> {
        // HMAC itself fills a key up to its block with zeros.
        let mut block = [0; 64];
        for (byte, of_key) in block.iter_mut().zip(self.0.expose_secret()) {
            *byte = *of_key;
        }
        let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new(&block.into());
        // None of the first three has a zero byte, so no two inputs are the same bytes.
        for part in [P::LABEL, caller.workspace.as_str(), &caller.key_id] {
            mac.update(part.as_bytes());
            mac.update(&[0]);
        }
        mac.update(payload);
        mac
    }
}

/// From two random UUIDs: 244 random bits.
fn new_row() -> NewApiKey {
    let random = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
    NewApiKey {
        id: ROW.to_owned(),
        workspace: WorkspaceId::new(NO_WORKSPACE),
        name: "authenticates the state of MCP clients".to_owned(),
        prefix: String::new(),
        hash: KeyHash(random.iter().flat_map(|uuid| uuid.into_bytes()).collect()),
        roles: Vec::new(),
        scopes: Vec::new(),
        agents: Some(Vec::new()),
        expires_at: None,
    }
}

impl Asked {
    /// Opens the state of a repeated call, which must be the same call.
    pub(super) fn open(
        key: &StateKey,
        caller: &Caller,
        sealed: &str,
        (tool, arguments): (&str, Digest),
        now: Timestamp,
    ) -> Result<Self, Failure> {
        let Some(asked) = key.open::<Self>(caller, sealed) else {
            return Err(Failure::params(
                "requestState: was changed, or was not given to this API key; send it back exactly as it was received",
            ));
        };
        if asked.tool != tool || asked.arguments != arguments {
            return Err(Failure::params(
                "requestState: belongs to another call; repeat the call with its own arguments",
            ));
        }
        if asked.expires_at <= now {
            let message = format!(
                "requestState: has expired; call the tool again with session {:?}, the id of its run, to continue",
                asked.run.as_str()
            );
            return Err(Failure::params(message));
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_store::{
        Keys as _,
        sqlite::{Options, SqliteStore},
    };

    use super::*;

    fn caller(workspace: &str, key_id: &str) -> Caller {
        Caller {
            workspace: workspace.into(),
            key_id: key_id.to_owned(),
            key_name: "ci".to_owned(),
            scopes: vec!["*".to_owned()],
            roles: Vec::new(),
            agents: None,
        }
    }

    fn key(byte: u8) -> StateKey {
        StateKey(vec![byte; 32].into())
    }

    fn asked() -> Asked {
        Asked {
            run: "run-1".into(),
            tool: "desk".to_owned(),
            arguments: Digest::of_json(&json!({"message": "hi"})),
            keys: vec!["await-1".to_owned()],
            expires_at: Timestamp(1_000),
        }
    }

    #[test]
    fn a_state_opens_for_its_caller_only() {
        let (own, asked) = (caller("acme", "key-1"), asked());
        let sealed = key(1).seal(&own, &asked);
        assert_eq!(key(1).open::<Asked>(&own, &sealed), Some(asked));
        for other in [caller("acme", "key-2"), caller("other", "key-1"), caller("acmekey", "-1")] {
            assert_eq!(key(1).open::<Asked>(&other, &sealed), None, "{other:?}");
        }
        assert_eq!(key(2).open::<Asked>(&own, &sealed), None, "of another store");
        assert_eq!(key(1).open::<Question>(&own, &sealed), None, "for another purpose");
    }

    #[test]
    fn a_state_with_any_change_is_refused() {
        let own = caller("acme", "key-1");
        let sealed = key(1).seal(&own, &asked());
        for (index, c) in sealed.char_indices() {
            let other = if c == 'A' { 'B' } else { 'A' };
            let changed = format!("{}{other}{}", &sealed[..index], &sealed[index + 1..]);
            assert_eq!(key(1).open::<Asked>(&own, &changed), None, "{index}");
        }
        for changed in
            [format!("{sealed}-TAMPERED"), format!("{sealed}A"), sealed[..sealed.len() - 1].to_owned(), String::new()]
        {
            assert_eq!(key(1).open::<Asked>(&own, &changed), None, "{changed}");
        }
    }

    #[test]
    fn a_state_is_bound_to_its_call_and_expires() {
        let (own, asked) = (caller("acme", "key-1"), asked());
        let sealed = key(1).seal(&own, &asked);
        let open = |call: (&str, Digest), now| {
            Asked::open(&key(1), &own, &sealed, call, Timestamp(now)).map_err(|failure| failure.code)
        };
        assert_eq!(open(("desk", asked.arguments), 999), Ok(asked.clone()));
        assert_eq!(open(("desk", asked.arguments), 1_000), Err(-32602));
        assert_eq!(open(("other", asked.arguments), 999), Err(-32602));
        assert_eq!(open(("desk", Digest::of_json(&json!({}))), 999), Err(-32602));
    }

    #[tokio::test]
    async fn every_server_of_a_store_has_the_same_key_and_no_caller_can_use_it() {
        let home = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(Options::new(home.path().join("windlass.db"))).unwrap();
        let (one, other) = (StateKey::of(&store).await.unwrap(), StateKey::of(&store).await.unwrap());
        assert_eq!(one.0.expose_secret(), other.0.expose_secret());
        assert_eq!(one.0.expose_secret().len(), 32);
        assert_eq!(store.keys(&"acme".into()).await.unwrap(), Vec::new());
        assert!(WorkspaceId::parse(NO_WORKSPACE).is_err());
    }
}
