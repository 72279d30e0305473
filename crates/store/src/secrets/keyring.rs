//! The keys that encrypt secrets. The first key of a ring encrypts; all of them decrypt.
//!
//! As text, a ring is a list of keys, each 32 bytes in base64 or hexadecimal, separated by white space or commas. In a
//! file, a line that begins with `#` is a comment. To rotate, put a new key first, run [`Vault::rotate`], and then remove
//! the old key.
//!
//! [`Vault::rotate`]: super::Vault::rotate

use std::{fmt, fs, io, io::Write as _, path::Path};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};
use secrecy::{ExposeSecret as _, SecretBox, SecretString};
use windlass_core::canonical::Digest;
use windlass_sqlite::private;

use crate::{Result, StoreError};

const BYTES: usize = 32;

/// The key's id is derived from the key, so it need not be stored beside it and cannot be mistaken.
const ID_LABEL: &[u8] = b"windlass.secret.key-id.v1";

/// 256 bits. Its `Debug` output is its id.
pub struct SecretKey {
    id: String,
    bytes: SecretBox<[u8; BYTES]>,
}

impl SecretKey {
    pub fn random() -> Result<Self> {
        let mut filled = Ok(());
        let bytes = SecretBox::init_with_mut(|bytes: &mut [u8; BYTES]| filled = SystemRandom::new().fill(bytes));
        filled.map_err(|_| StoreError::Unavailable {
            action: "make a key",
            detail: "the system has no random numbers".to_owned(),
        })?;
        Ok(Self::new(bytes))
    }

    fn new(bytes: SecretBox<[u8; BYTES]>) -> Self {
        let labelled = SecretBox::new(Box::new([ID_LABEL, bytes.expose_secret()].concat()));
        let id = Digest::of_bytes(labelled.expose_secret()).to_string()[..16].to_owned();
        Self { id, bytes }
    }

    /// From base64 or hexadecimal.
    fn parse(text: &str) -> Option<Self> {
        let decoded = if text.len() == 2 * BYTES { hex::decode(text).ok() } else { STANDARD.decode(text).ok() };
        let decoded = SecretBox::new(Box::new(decoded?));
        let bytes: &[u8; BYTES] = decoded.expose_secret().as_slice().try_into().ok()?;
        Some(Self::new(SecretBox::init_with_mut(|target: &mut [u8; BYTES]| target.copy_from_slice(bytes))))
    }

    /// 16 hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn expose(&self) -> &[u8; BYTES] {
        self.bytes.expose_secret()
    }

    fn base64(&self) -> SecretString {
        STANDARD.encode(self.expose()).into()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// At least one key.
#[derive(Debug)]
pub struct KeyRing {
    current: SecretKey,
    older: Vec<SecretKey>,
}

impl KeyRing {
    pub fn new(current: SecretKey, older: Vec<SecretKey>) -> Self {
        Self { current, older }
    }

    /// From the text of an environment variable. `source` names it in errors.
    pub fn parse(text: &SecretString, source: &str) -> Result<Self> {
        let unusable = |problem: String| StoreError::SecretKeys { place: source.to_owned(), problem };
        let lines = text.expose_secret().lines().filter(|line| !line.trim_start().starts_with('#'));
        let words = lines.flat_map(|line| line.split([',', ' ', '\t', '\r'])).filter(|word| !word.is_empty());
        let mut keys = Vec::new();
        for (number, word) in (1..).zip(words) {
            let problem = || format!("key {number} is not 32 bytes in base64 or hexadecimal");
            keys.push(SecretKey::parse(word).ok_or_else(|| unusable(problem()))?);
        }
        let mut keys = keys.into_iter();
        let current = keys.next().ok_or_else(|| unusable("it has no key".to_owned()))?;
        Ok(Self::new(current, keys.collect()))
    }

    /// From a file. If others may read the file, its mode is changed to 0600.
    pub fn load(path: &Path) -> Result<Self> {
        let text: SecretString = fs::read_to_string(path).map_err(|error| failed(path, &error))?.into();
        private::tighten(path);
        Self::parse(&text, &path.display().to_string())
    }

    /// From a file, which is created with a new key and mode 0600 if it does not exist. Of several processes that do
    /// this at once, one creates the file and the others load it.
    pub fn load_or_create(path: &Path) -> Result<Self> {
        if !path.exists() {
            create(path).map_err(|error| failed(path, &error))?;
        }
        Self::load(path)
    }

    /// The key that encrypts.
    pub fn current(&self) -> &SecretKey {
        &self.current
    }

    pub(super) fn get(&self, id: &str) -> Option<&SecretKey> {
        self.all().find(|key| key.id == id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &SecretKey> {
        [&self.current].into_iter().chain(&self.older)
    }
}

/// Written beside its place and linked to it whole: no process reads half a key, and no key replaces another.
fn create(path: &Path) -> io::Result<()> {
    let key = SecretKey::random().map_err(io::Error::other)?;
    let draft = path.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let mut file = private::open_options().create_new(true).write(true).open(&draft)?;
    let written = writeln!(file, "{}", key.base64().expose_secret()).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    fs::remove_file(&draft)?;
    linked
}

fn failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError::SecretKeys { place: path.display().to_string(), problem: error.to_string() }
}
