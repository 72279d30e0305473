//! The API key of `windlass dev`: the one of --api-key, or one that is created once and kept in the data directory.

use std::{fs, io::Write as _, path::Path};

use secrecy::{ExposeSecret as _, SecretString};
use windlass_api::auth::ApiKey;
use windlass_core::ids::WorkspaceId;
use windlass_sqlite::private;
use windlass_store::{ApiKeyRow, Store, StoreError, system_clock};

use crate::failure::{Failure, usage};

const FILE: &str = "api-key";
const NAME: &str = "dev";

/// Returns the key to use. It is in the store.
pub(super) async fn ensure(
    store: &dyn Store,
    workspace: &WorkspaceId,
    given: Option<&SecretString>,
    home: &Path,
) -> Result<ApiKey, Failure> {
    if let Some(given) = given {
        let key = ApiKey::new(given.expose_secret());
        return if is_valid_after_adding(store, workspace, &key).await? {
            Ok(key)
        } else {
            Err(usage("the --api-key is revoked, has expired or belongs to another workspace; use another key"))
        };
    }
    let path = home.join(FILE);
    if let Ok(kept) = fs::read_to_string(&path) {
        let key = ApiKey::new(kept.trim());
        if is_valid_after_adding(store, workspace, &key).await? {
            return Ok(key);
        }
    }
    let key = ApiKey::random();
    store.create_key(row(workspace, &key)).await?;
    let mut file = private::open_options().create(true).write(true).truncate(true).open(&path)?;
    private::tighten(&path);
    writeln!(file, "{}", key.reveal())?;
    Ok(key)
}

fn row(workspace: &WorkspaceId, key: &ApiKey) -> windlass_store::NewApiKey {
    key.row(workspace.clone(), NAME, vec!["*".to_owned()], None)
}

/// Whether the key is valid for this workspace. A key that is not in the store is added.
async fn is_valid_after_adding(store: &dyn Store, workspace: &WorkspaceId, key: &ApiKey) -> Result<bool, Failure> {
    match store.create_key(row(workspace, key)).await {
        Ok(_) => Ok(true),
        Err(StoreError::KeyExists { .. }) => {
            let known = store.key(&key.id()).await?;
            let now = system_clock()();
            let is_valid = |known: &ApiKeyRow| known.revoked_at.is_none() && !known.has_expired(now);
            Ok(known.is_some_and(|known| known.workspace == *workspace && is_valid(&known)))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::{
        Keys as _,
        sqlite::{Options, SqliteStore},
    };

    use super::*;

    #[tokio::test]
    async fn a_key_is_created_once_and_a_revoked_one_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(Options::new(home.path().join("windlass.db"))).unwrap();
        let workspace = WorkspaceId::new("acme");
        let first = ensure(&store, &workspace, None, home.path()).await.unwrap();
        let again = ensure(&store, &workspace, None, home.path()).await.unwrap();
        assert_eq!(first.reveal(), again.reveal());
        store.revoke_key(&workspace, &first.id()).await.unwrap();
        let third = ensure(&store, &workspace, None, home.path()).await.unwrap();
        assert_ne!(first.reveal(), third.reveal());
        let other = ensure(&store, &WorkspaceId::new("other"), None, home.path()).await.unwrap();
        assert_ne!(third.reveal(), other.reveal());
    }

    #[tokio::test]
    async fn a_given_key_is_valid_for_its_workspace_only() {
        let home = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(Options::new(home.path().join("windlass.db"))).unwrap();
        let given = SecretString::from("mantyx_test_key");
        let (acme, other) = (WorkspaceId::new("acme"), WorkspaceId::new("other"));
        for _ in 0..2 {
            let key = ensure(&store, &acme, Some(&given), home.path()).await.unwrap();
            assert_eq!(key.reveal(), "mantyx_test_key");
        }
        assert!(ensure(&store, &other, Some(&given), home.path()).await.is_err());
    }
}
