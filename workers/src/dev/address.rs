//! The file with the address of the server on a data directory, for commands on the same directory.
//!
//! It exists while the server runs. A killed server leaves it behind, so a reader checks whether the server responds. A
//! command that follows a run reads the file again until a server responds.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use windlass_api::auth::ApiKey;
use windlass_client::Address;
use windlass_sqlite::private;

const FILE: &str = "dev.json";

/// The address of the server on this data directory, if there is one.
pub(crate) fn address_of(data_dir: &Path) -> Option<Address> {
    let document: Value = serde_json::from_str(&fs::read_to_string(data_dir.join(FILE)).ok()?).ok()?;
    let text = |key: &str| document[key].as_str();
    Some(Address { base_url: text("api")?.to_owned(), api_key: text("apiKey")?.into() })
}

/// Removes the file when it is dropped.
#[derive(Debug)]
pub(super) struct Announced {
    path: PathBuf,
}

impl Announced {
    /// With mode 0600, because it contains the API key.
    pub(super) fn write(home: &Path, api: &str, key: &ApiKey) -> std::io::Result<Self> {
        let path = home.join(FILE);
        // An old file is removed first, so that no reader sees a mix of both.
        let _ = fs::remove_file(&path);
        let document = json!({"api": api, "apiKey": key.reveal()});
        let mut file = private::open_options().create_new(true).write(true).open(&path)?;
        writeln!(file, "{document}")?;
        Ok(Self { path })
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn the_address_file_exists_while_the_server_runs() {
        let home = tempfile::tempdir().unwrap();
        assert!(address_of(home.path()).is_none());
        let announced = Announced::write(home.path(), "http://h:1", &ApiKey::new("k")).unwrap();
        let mode = fs::metadata(home.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let Address { base_url, api_key } = address_of(home.path()).unwrap();
        assert_eq!((base_url.as_str(), api_key.expose_secret()), ("http://h:1", "k"));
        drop(announced);
        assert!(address_of(home.path()).is_none());
    }
}
