//! Bodies on their way into a store and out of it.

use serde::{Serialize, de::DeserializeOwned};
use windlass_core::{
    canonical::{self, Digest},
    envelope::BlobRef,
};

use crate::{Result, StoreError};

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
