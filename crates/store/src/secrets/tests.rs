//! Values and keys show nowhere: not in the database's files, not in `Debug` output, not in errors. Files of keys.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc, thread};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use secrecy::{ExposeSecret as _, SecretString};
use tempfile::TempDir;
use windlass_core::ids::{RunId, WorkspaceId};

use super::{KeyRing, Reader, SecretKey, SecretOwner, Vault};
use crate::{
    ErrorKind, Store,
    sqlite::{Options, SqliteStore},
};

/// Random secrets that are tried.
const CASES: u32 = 32;

/// All that the database has on disk.
fn on_disk(directory: &TempDir) -> Vec<u8> {
    let files = fs::read_dir(directory.path()).unwrap();
    files.flat_map(|file| fs::read(file.unwrap().path()).unwrap()).collect()
}

fn contains(hay: &[u8], needle: &str) -> bool {
    hay.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// A value, or a key, in every spelling in which it could show.
fn spellings(bytes: &[u8]) -> Vec<String> {
    let debug = format!("{bytes:?}");
    let decimal = debug[1..debug.len() - 1].to_owned();
    let text = String::from_utf8(bytes.to_vec());
    [hex::encode(bytes), hex::encode_upper(bytes), STANDARD.encode(bytes), decimal].into_iter().chain(text).collect()
}

/// Sets, splits, reads and fails to read `secret`; returns everything that was shown meanwhile.
async fn use_everywhere(store: &Arc<dyn Store>, secret: &str) -> (Vec<String>, Vec<String>) {
    let key = SecretKey::random().unwrap();
    let mut hidden = spellings(secret.as_bytes());
    hidden.extend(spellings(key.expose()));
    let mut shown = vec![format!("{key:?}")];
    let vault = Vault::new(store.clone(), KeyRing::new(key, Vec::new()));
    let stranger = Vault::new(store.clone(), KeyRing::new(SecretKey::random().unwrap(), Vec::new()));
    let (workspace, run, value) = (WorkspaceId::new("acme"), RunId::new("one"), SecretString::from(secret));
    let (reader, owner) = (Reader { run: &run, session: None }, SecretOwner::Run(run.clone()));

    shown.push(format!("{:?} {vault:?} {value:?}", vault.set(&workspace, "token", &value).await.unwrap()));
    let split = vault.split(&workspace, &owner, "headers", &value).await.unwrap();
    for name in ["token", &split] {
        let read = vault.get(&workspace, name, reader).await.unwrap();
        assert_eq!(read.expose_secret(), secret);
        shown.push(format!("{read:?} {:?}", store.sealed_secret(&workspace, name).await.unwrap().unwrap().key_id));
        let refused = stranger.get(&workspace, name, reader).await.unwrap_err();
        shown.push(format!("{refused} {refused:?}"));
    }
    shown.push(format!("{:?}", vault.list(&workspace).await.unwrap()));
    let other = SecretString::from(format!("{secret}{secret}"));
    let refusals = [
        vault.split(&workspace, &owner, "headers", &other).await.map(drop),
        vault.set(&workspace, "a name", &value).await.map(drop),
        vault.set(&workspace, "large", &SecretString::from(secret.repeat(5000))).await.map(drop),
        vault.get(&workspace, "nothing", reader).await.map(drop),
        KeyRing::parse(&value, "a variable").map(drop),
    ];
    shown.extend(refusals.map(|refused| refused.map_err(|error| format!("{error} {error:?}")).unwrap_err()));
    // A value that is replaced and one that is removed leave nothing behind, either.
    vault.set(&workspace, "token", &other).await.unwrap();
    vault.remove(&workspace, "token").await.unwrap();
    store.put_blob(serde_json::json!("in the clear: canary").into()).await.unwrap();
    (hidden, shown)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn no_value_and_no_key_is_on_disk_or_in_anything_shown(secret in "[A-Za-z0-9+/=_. -]{16,200}") {
        let directory = TempDir::new().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let store = SqliteStore::open(Options::new(directory.path().join("windlass.db"))).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let (hidden, shown) = runtime.block_on(use_everywhere(&store, &secret));
        // While the store is open, the write-ahead log is there too; once it is closed, all is in the main file.
        let mut disk = on_disk(&directory);
        drop(store);
        disk.extend(on_disk(&directory));
        prop_assert!(contains(&disk, "in the clear: canary"), "the files that are searched have what was written");
        for hidden in hidden {
            prop_assert!(!contains(&disk, &hidden));
            prop_assert!(shown.iter().all(|shown| !shown.contains(&hidden)), "{shown:#?}");
        }
    }
}

#[test]
fn a_key_ring_is_a_list_of_keys_in_base64_or_hexadecimal() {
    let (first, second) = ([7; 32], [9; 32]);
    let text = format!("# current\n {}\r\n#old\n{},\n", STANDARD.encode(first), hex::encode(second));
    let ring = KeyRing::parse(&text.into(), "a file").unwrap();
    assert_eq!(ring.current().expose(), &first);
    assert_eq!(ring.all().map(SecretKey::expose).collect::<Vec<_>>(), [&first, &second]);
    assert_ne!(ring.current().id(), ring.all().last().unwrap().id());

    let short = STANDARD.encode([7; 16]);
    let cases = [
        ("", "it has no key"),
        ("# nothing", "it has no key"),
        (short.as_str(), "key 1 is not 32 bytes in base64 or hexadecimal"),
        (&format!("{} ?", hex::encode(first)), "key 2 is not 32 bytes in base64 or hexadecimal"),
    ];
    for (text, problem) in cases {
        let error = KeyRing::parse(&text.to_owned().into(), "WINDLASS_SECRET_KEYS").unwrap_err();
        assert_eq!((error.code(), error.kind()), ("STO0027", ErrorKind::Invalid));
        let expected = format!(
            "the keys for secrets in WINDLASS_SECRET_KEYS cannot be used: {problem}; give keys of 32 bytes in base64 or \
             hexadecimal"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_key_file_is_created_once_and_for_its_owner_alone() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("secret-keys");
    let ids: Vec<String> = thread::scope(|scope| {
        let load = || KeyRing::load_or_create(&path).unwrap().current().id().to_owned();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft is left");
    assert_eq!(mode(&path), 0o600);

    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(KeyRing::load(&path).unwrap().current().id(), ids[0]);
    assert_eq!(mode(&path), 0o600);

    let missing = KeyRing::load(&directory.path().join("nothing")).unwrap_err();
    assert_eq!(missing.code(), "STO0027");
    let nowhere = KeyRing::load_or_create(&directory.path().join("no/such/directory")).unwrap_err();
    assert_eq!(nowhere.code(), "STO0027");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
