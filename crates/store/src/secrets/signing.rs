//! The installation's signing key, and signatures of what it sends to addresses that callers name.
//!
//! The format is Standard Webhooks with its asymmetric scheme: an Ed25519 signature of `id.timestamp.body`. The key is made
//! on first use and stored like every secret, in a workspace that no caller can have. Receivers get the public key as a
//! JSON Web Key.

use std::fmt;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ring::{
    digest::{SHA256, digest},
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use crate::{Result, StoreError};

/// The name of the key among the installation's secrets.
pub(super) const NAME: &str = "signing.ed25519";

/// What a fingerprint is made of begins with it.
const FINGERPRINT: &[u8] = b"windlass.fingerprint.v1.";

/// The headers of a signed request.
pub const ID_HEADER: &str = "webhook-id";
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
pub const SIGNATURE_HEADER: &str = "webhook-signature";

/// An Ed25519 key pair. Its `Debug` output is its id.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// A new key, as the vault stores it: PKCS#8 in base64.
    pub(super) fn random() -> Result<SecretString> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let document = document.map_err(|_| StoreError::Unavailable {
            action: "make a key",
            detail: "the system has no random numbers".to_owned(),
        })?;
        Ok(STANDARD.encode(document.as_ref()).into())
    }

    pub(super) fn parse(stored: &SecretString) -> Result<Self> {
        let document = STANDARD.decode(stored.expose_secret()).ok();
        let pair = document.and_then(|document| Ed25519KeyPair::from_pkcs8(&document).ok());
        pair.map(Self).ok_or_else(|| StoreError::Corrupt { detail: format!("the secret {NAME} is no Ed25519 key") })
    }

    /// The value of the signature header. Neither the id nor the timestamp may contain a full stop.
    pub fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let signed = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
        format!("v1a,{}", STANDARD.encode(self.0.sign(&signed)))
    }

    /// A name for a value, always the same and without a hint at the value: only the holder of the key can compute it.
    pub fn fingerprint(&self, value: &[u8]) -> String {
        // Ed25519 signatures are deterministic. What webhooks sign begins with another text.
        let signature = self.0.sign(&[FINGERPRINT, value].concat());
        hex::encode(digest(&SHA256, signature.as_ref()))[..32].to_owned()
    }

    /// The thumbprint of the public key (RFC 7638).
    pub fn id(&self) -> String {
        let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, self.x());
        URL_SAFE_NO_PAD.encode(digest(&SHA256, members.as_bytes()))
    }

    /// The public key as a JSON Web Key (RFC 8037).
    pub fn jwk(&self) -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": self.id(), "x": self.x()})
    }

    fn x(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.public_key())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.id()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of RFC 8037, appendix A.
    fn known() -> SigningKey {
        let seed = URL_SAFE_NO_PAD.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").unwrap();
        SigningKey(Ed25519KeyPair::from_seed_unchecked(&seed).unwrap())
    }

    #[test]
    fn the_public_key_and_its_thumbprint_are_those_of_rfc_8037() {
        let expected = json!({
            "kty": "OKP",
            "crv": "Ed25519",
            "alg": "EdDSA",
            "use": "sig",
            "kid": "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
            "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
        });
        assert_eq!(known().jwk(), expected);
    }

    #[test]
    fn a_signature_is_over_the_id_the_timestamp_and_the_body() {
        // Made by the Python package `cryptography` with the same key.
        let expected = "v1a,1iwBIQRyZJVYzHi8W22Q9TxJFbE4waw8sj62zL5CDYbynQr3b87yUdD0YXUc54GbqQUdUz+RHKDuCjoo1tAKDQ==";
        let body = br#"{"task":{"id":"run-1"}}"#;
        assert_eq!(known().sign("msg_1", 1_700_000_000, body), expected);
        for other in [known().sign("msg_2", 1_700_000_000, body), known().sign("msg_1", 1_700_000_001, body)] {
            assert_ne!(other, expected);
        }
    }

    #[test]
    fn a_fingerprint_depends_on_the_key_and_the_value() {
        let other = SigningKey::parse(&SigningKey::random().unwrap()).unwrap();
        let one = known().fingerprint(b"a");
        assert_eq!((one.len(), &one), (32, &known().fingerprint(b"a")));
        assert!(one != known().fingerprint(b"b") && one != other.fingerprint(b"a"));
    }

    #[test]
    fn a_stored_key_signs_the_same_again_and_shows_nowhere() {
        let stored = SigningKey::random().unwrap();
        let (one, again) = (SigningKey::parse(&stored).unwrap(), SigningKey::parse(&stored).unwrap());
        assert_eq!(one.sign("msg_1", 1, b"x"), again.sign("msg_1", 1, b"x"));
        assert_eq!(format!("{one:?}"), format!("SigningKey({:?})", one.id()));
        assert_eq!(SigningKey::parse(&"no key".into()).unwrap_err().code(), "STO0008");
    }
}
