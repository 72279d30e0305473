//! Bodies addressed by the digest of their canonical bytes.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Serialize, de::DeserializeOwned};
use windlass_core::{
    canonical::{self, Digest},
    envelope::BlobRef,
    time::Timestamp,
};

use super::{
    access::Tx,
    columns::{Hex, Uint},
};
use crate::{Result, StoreError, sweeping::PUT_GRAIN};

/// A body on its way into the store. Made by the caller, so that the writer thread need not hash.
pub(super) struct Body {
    pub(super) digest: Digest,
    bytes: Vec<u8>,
}

impl Body {
    pub(super) fn of<T: Serialize>(value: &T) -> Result<Self> {
        let bytes = canonical::bytes_of(value).map_err(|error| StoreError::InvalidArgument {
            argument: "a body",
            problem: format!("it cannot be written as JSON ({error}); use string keys and finite numbers"),
        })?;
        Ok(Self { digest: Digest::of_bytes(&bytes), bytes })
    }

    pub(super) fn all_of<T: Serialize>(values: &[T]) -> Result<Vec<Self>> {
        values.iter().map(Self::of).collect()
    }

    pub(super) fn reference(&self) -> BlobRef {
        BlobRef { digest: self.digest, bytes: self.bytes.len() as u64 }
    }
}

pub(super) fn put(sql: &Connection, body: &Body) -> Result<()> {
    sql.prepare_cached("INSERT INTO blobs (digest, body) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![Hex(body.digest), body.bytes])?;
    Ok(())
}

/// Stores a body that a workflow may hold the only reference to. Storing it again keeps it for longer.
pub(super) fn put_alone(tx: &Tx<'_>, body: &Body) -> Result<()> {
    let stale = Timestamp(tx.now.0.saturating_sub(PUT_GRAIN.0));
    tx.sql
        .prepare_cached(
            "INSERT INTO blobs (digest, body, put_at) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET put_at = excluded.put_at WHERE put_at IS NULL OR put_at < ?4",
        )?
        .execute(params![Hex(body.digest), body.bytes, Uint::from(tx.now), Uint::from(stale)])?;
    Ok(())
}

pub(super) fn get<T: DeserializeOwned>(sql: &Connection, digest: Digest) -> Result<Option<T>> {
    sql.prepare_cached("SELECT body FROM blobs WHERE digest = ?1")?
        .query_row([Hex(digest)], |row| row.get::<_, Vec<u8>>(0))
        .optional()?
        .map(|bytes| decode(digest, &bytes))
        .transpose()
}

pub(super) fn exists(sql: &Connection, digest: Digest) -> Result<bool> {
    Ok(sql.prepare_cached("SELECT 1 FROM blobs WHERE digest = ?1")?.exists([Hex(digest)])?)
}

/// Reads a body from a row that begins with `digest, body`.
pub(super) fn from_row<T: DeserializeOwned>(row: &Row<'_>) -> Result<(Digest, T)> {
    let Hex(digest) = row.get(0)?;
    let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
    Ok((digest, decode(digest, bytes)?))
}

/// Reads a body back and makes sure that it is the one that was written.
fn decode<T: DeserializeOwned>(digest: Digest, bytes: &[u8]) -> Result<T> {
    if Digest::of_bytes(bytes) != digest {
        return Err(StoreError::Corrupt { detail: format!("the body of blob {digest} has another digest") });
    }
    serde_json::from_slice(bytes).map_err(|error| StoreError::Corrupt {
        detail: format!("blob {digest} is not what its reader expects: {error}"),
    })
}
