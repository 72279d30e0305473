//! Where a `windlass dev` is found by commands on the same data directory.
//!
//! The file is there while it serves. One that was killed leaves it behind, so a reader asks whether anybody answers; one
//! that follows a run reads the file again until somebody does.

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

/// The way to the server on this data directory, if one said where it is.
pub(crate) fn address_of(data_dir: &Path) -> Option<Address> {
    let document: Value = serde_json::from_str(&fs::read_to_string(data_dir.join(FILE)).ok()?).ok()?;
    let text = |key: &str| document[key].as_str();
    Some(Address { base_url: text("api")?.to_owned(), api_key: text("apiKey")?.into() })
}

/// Takes the file away when the server stops.
#[derive(Debug)]
pub(super) struct Announced {
    path: PathBuf,
}

impl Announced {
    /// Only its owner may read it: the key is in it.
    pub(super) fn write(home: &Path, api: &str, key: &ApiKey) -> std::io::Result<Self> {
        let path = home.join(FILE);
        // What is left of an earlier one goes first, so that nobody reads half of this one behind its beginning.
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
    fn an_address_is_there_while_somebody_serves() {
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
