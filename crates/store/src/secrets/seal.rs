//! Encryption of one value: AES-256-GCM with a random 96-bit nonce.
//!
//! The associated data binds a ciphertext to its workspace, name, owner and key. A row that is copied to another name or
//! workspace does not decrypt.

use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom as _, SystemRandom},
};
use secrecy::{ExposeSecret as _, SecretBox, SecretString};
use serde_json::json;
use windlass_core::{canonical, ids::WorkspaceId};

use super::{KeyRing, SealedSecret, SecretKey, SecretOwner};
use crate::{Result, StoreError};

/// Encrypts a value with the ring's current key.
pub(super) fn seal(
    keys: &KeyRing,
    (workspace, name, owner): (&WorkspaceId, &str, Option<&SecretOwner>),
    value: &SecretString,
) -> Result<SealedSecret> {
    let key = keys.current();
    let mut sealed = SealedSecret {
        workspace: workspace.clone(),
        name: name.to_owned(),
        owner: owner.cloned(),
        key_id: key.id().to_owned(),
        nonce: vec![0; NONCE_LEN],
        ciphertext: Vec::new(),
    };
    SystemRandom::new().fill(&mut sealed.nonce).map_err(|_| unavailable("the system has no random numbers"))?;
    // Encrypted in place: the only copy of the value becomes the ciphertext.
    let mut buffer = value.expose_secret().as_bytes().to_vec();
    let (cipher, nonce) = parts(key, &sealed)?;
    cipher
        .seal_in_place_append_tag(nonce, Aad::from(bound_to(&sealed)), &mut buffer)
        .map_err(|_| unavailable("the value was not encrypted"))?;
    sealed.ciphertext = buffer;
    Ok(sealed)
}

/// Decrypts a value with the key that encrypted it.
pub(super) fn open(keys: &KeyRing, sealed: &SealedSecret) -> Result<SecretString> {
    let key = keys.get(&sealed.key_id).ok_or_else(|| StoreError::SecretKeyMissing {
        workspace: sealed.workspace.clone(),
        name: sealed.name.clone(),
        key_id: sealed.key_id.clone(),
        known: keys.all().map(SecretKey::id).collect::<Vec<_>>().join(", "),
    })?;
    let damaged = || StoreError::Corrupt {
        detail: format!(
            "secret {} of workspace {} does not decrypt with key {}",
            sealed.name,
            sealed.workspace,
            key.id()
        ),
    };
    let (cipher, nonce) = parts(key, sealed).map_err(|_| damaged())?;
    let mut buffer = SecretBox::new(Box::new(sealed.ciphertext.clone()));
    let value = {
        use secrecy::ExposeSecretMut as _;
        let plain = cipher.open_in_place(nonce, Aad::from(bound_to(sealed)), buffer.expose_secret_mut());
        std::str::from_utf8(plain.map_err(|_| damaged())?).map_err(|_| damaged())?.into()
    };
    Ok(value)
}

fn parts(key: &SecretKey, sealed: &SealedSecret) -> Result<(LessSafeKey, Nonce)> {
    let unbound = UnboundKey::new(&AES_256_GCM, key.expose()).map_err(|_| unavailable("the key has a wrong size"))?;
    let nonce =
        Nonce::try_assume_unique_for_key(&sealed.nonce).map_err(|_| unavailable("the nonce has a wrong size"))?;
    Ok((LessSafeKey::new(unbound), nonce))
}

fn bound_to(sealed: &SealedSecret) -> Vec<u8> {
    let owner = sealed.owner.as_ref().map(SecretOwner::text);
    canonical::to_bytes(&json!(["windlass.secret.v1", sealed.workspace, sealed.name, owner, sealed.key_id]))
}

fn unavailable(detail: &str) -> StoreError {
    StoreError::Unavailable { action: "encrypt a secret", detail: detail.to_owned() }
}
