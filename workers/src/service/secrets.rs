//! Where the keys come from that encrypt the store's secrets.

use std::{path::PathBuf, sync::Arc};

use secrecy::SecretString;
use windlass_store::{KeyRing, Secrets, Vault};

use crate::failure::Failure;

/// The key file that is created in a data directory, with mode 0600.
const FILE: &str = "secrets-key";

/// The source of the key ring.
#[derive(Debug, Clone)]
pub enum SecretKeys {
    File(PathBuf),
    /// The text of an environment variable, and its name.
    Variable(SecretString, &'static str),
    /// A file in this data directory, created if it does not exist.
    DataDir(PathBuf),
    /// A Postgres store without keys: several processes share it, so a key cannot be created.
    Absent,
}

impl SecretKeys {
    /// The secrets of this store. `None` if there are no keys.
    pub fn vault(&self, store: Arc<dyn Secrets>) -> Result<Option<Vault>, Failure> {
        let keys = match self {
            Self::File(path) => KeyRing::load(path)?,
            Self::Variable(text, name) => KeyRing::parse(text, name)?,
            Self::DataDir(data_dir) => KeyRing::load_or_create(&data_dir.join(FILE))?,
            Self::Absent => return Ok(None),
        };
        Ok(Some(Vault::new(store, keys)))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use windlass_core::ids::{RunId, WorkspaceId};
    use windlass_store::{
        Reader,
        sqlite::{Options, SqliteStore},
    };

    use super::*;

    #[tokio::test]
    async fn a_data_directory_gets_one_private_key_file_that_later_processes_use() {
        let home = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(Options::new(home.path().join("windlass.db"))).unwrap());
        let vault = |keys: SecretKeys| keys.vault(store.clone());
        let (workspace, run) = (WorkspaceId::new("acme"), RunId::new("run-1"));
        let first = vault(SecretKeys::DataDir(home.path().to_owned())).unwrap().unwrap();
        first.set(&workspace, "TOKEN", &"t0p".into()).await.unwrap();
        let file = home.path().join(FILE);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

        let text = SecretString::from(fs::read_to_string(&file).unwrap());
        let reader = || Reader { run: &run, session: None };
        let same = [
            SecretKeys::DataDir(home.path().to_owned()),
            SecretKeys::File(file),
            SecretKeys::Variable(text, "WINDLASS_SECRETS_KEY"),
        ];
        for keys in same {
            let vault = vault(keys.clone()).unwrap().unwrap();
            let value = vault.get(&workspace, "TOKEN", reader()).await.unwrap();
            assert_eq!(secrecy::ExposeSecret::expose_secret(&value), "t0p", "{keys:?}");
        }
        assert!(vault(SecretKeys::Absent).unwrap().is_none());
    }
}
