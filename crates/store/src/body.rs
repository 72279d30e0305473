//! Bodies on their way into a store and out of it.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use windlass_core::{
    canonical::{self, Digest},
    envelope::BlobRef,
};

use crate::{Result, StoreError};

/// What is digested in a moment.
const LIGHT: usize = 64 * 1024;

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

    /// As [`Self::of`], for a body of any size: no thread that serves others is held up by writing and digesting it.
    pub(crate) async fn apart(value: Value) -> Result<Self> {
        if !canonical::exceeds(&value, LIGHT) {
            return Self::of(&value);
        }
        let made = tokio::task::spawn_blocking(move || Self::of(&value)).await;
        made.unwrap_or_else(|error| Err(StoreError::Unavailable { action: "write a body", detail: error.to_string() }))
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
    if Digest::of_bytes(bytes) != digest {
        return Err(StoreError::Corrupt { detail: format!("the body of blob {digest} has another digest") });
    }
    serde_json::from_slice(bytes).map_err(|error| StoreError::Corrupt {
        detail: format!("blob {digest} is not what its reader expects: {error}"),
    })
}
