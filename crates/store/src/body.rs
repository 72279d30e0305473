//! Bodies on their way into a store and out of it.

use serde::{Serialize, de::DeserializeOwned};
use windlass_core::{
    canonical::{self, CanonicalJson, Digest},
    envelope::BlobRef,
};

use crate::{Result, StoreError};

/// Bytes that are digested on the caller's thread.
const LIGHT: u64 = 64 * 1024;

/// A body with its digest. Made before any transaction begins, so that none has to wait for a hash.
pub(crate) struct Body {
    pub(crate) digest: Digest,
    pub(crate) bytes: Vec<u8>,
}

impl Body {
    pub(crate) fn of<T: Serialize>(value: &T) -> Result<Self> {
        let bytes = canonical::bytes_of(value).map_err(|error| StoreError::InvalidArgument {
            argument: "a body",
            problem: format!("it cannot be written as JSON ({error}); use string keys and finite numbers"),
        })?;
        Ok(Self { digest: Digest::of_bytes(&bytes), bytes })
    }

    /// A body that is written already.
    pub(crate) fn written(json: &CanonicalJson) -> Self {
        Self { digest: json.digest(), bytes: json.as_str().into() }
    }

    /// As [`Self::written`], for a body of any size: a large one is digested on a blocking thread.
    pub(crate) async fn of_any_size(json: CanonicalJson) -> Result<Self> {
        if json.bytes() <= LIGHT {
            return Ok(Self::written(&json));
        }
        let made = tokio::task::spawn_blocking(move || Self::written(&json)).await;
        made.map_err(|error| StoreError::Unavailable { action: "write a body", detail: error.to_string() })
    }

    pub(crate) fn all_of<T: Serialize>(values: &[T]) -> Result<Vec<Self>> {
        values.iter().map(Self::of).collect()
    }

    pub(crate) fn reference(&self) -> BlobRef {
        BlobRef { digest: self.digest, bytes: self.bytes.len() as u64 }
    }
}

/// Reads a body back and makes sure that it is the one that was written.
pub(crate) fn decode<T: DeserializeOwned>(digest: Digest, bytes: &[u8]) -> Result<T> {
    check(digest, bytes)?;
    serde_json::from_slice(bytes).map_err(|error| unexpected(digest, &error))
}

/// As [`decode`], without looking into it.
pub(crate) fn text(digest: Digest, bytes: Vec<u8>) -> Result<CanonicalJson> {
    check(digest, &bytes)?;
    String::from_utf8(bytes).map(CanonicalJson::from_canonical).map_err(|error| unexpected(digest, &error))
}

fn check(digest: Digest, bytes: &[u8]) -> Result<()> {
    if Digest::of_bytes(bytes) == digest {
        return Ok(());
    }
    Err(StoreError::Corrupt { detail: format!("the body of blob {digest} has another digest") })
}

fn unexpected(digest: Digest, error: &dyn std::error::Error) -> StoreError {
    StoreError::Corrupt { detail: format!("blob {digest} is not what its reader expects: {error}") }
}
