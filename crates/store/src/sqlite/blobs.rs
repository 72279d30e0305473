//! Bodies addressed by the digest of their canonical bytes.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::de::DeserializeOwned;
use windlass_core::{
    canonical::{CanonicalJson, Digest},
    envelope::BlobRef,
    time::Timestamp,
};

use super::{
    SqliteStore,
    access::Tx,
    columns::{Hex, Uint},
};
use crate::{
    Blobs, Result, StoreError,
    body::{Body, decode, text},
    sweeping::PUT_GRAIN,
};

#[async_trait]
impl Blobs for SqliteStore {
    async fn put_blob(&self, body: CanonicalJson) -> Result<BlobRef> {
        let body = Body::of_any_size(body).await?;
        let reference = body.reference();
        self.parts.write_relaxed(move |tx| put_unreferenced(tx, &body)).await?;
        Ok(reference)
    }

    async fn blob(&self, digest: &Digest) -> Result<Option<CanonicalJson>> {
        let digest = *digest;
        self.parts.read(move |sql| get(sql, digest)).await
    }
}

pub(super) fn put(sql: &Connection, body: &Body) -> Result<()> {
    sql.prepare_cached("INSERT INTO blobs (digest, body) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![Hex(body.digest), body.bytes])?;
    Ok(())
}

/// Stores a body that a workflow may hold the only reference to. Storing it again keeps it for longer.
fn put_unreferenced(tx: &Tx<'_>, body: &Body) -> Result<()> {
    let stale = Timestamp(tx.now.0.saturating_sub(PUT_GRAIN.0));
    tx.sql
        .prepare_cached(
            "INSERT INTO blobs (digest, body, put_at) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET put_at = excluded.put_at WHERE put_at IS NULL OR put_at < ?4",
        )?
        .execute(params![Hex(body.digest), body.bytes, Uint::from(tx.now), Uint::from(stale)])?;
    Ok(())
}

fn get(sql: &Connection, digest: Digest) -> Result<Option<CanonicalJson>> {
    sql.prepare_cached("SELECT body FROM blobs WHERE digest = ?1")?
        .query_row([Hex(digest)], |row| row.get::<_, Vec<u8>>(0))
        .optional()?
        .map(|bytes| text(digest, bytes))
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

/// A body that is to be referred to.
pub(super) fn require(sql: &Connection, argument: &'static str, digest: Option<Digest>) -> Result<()> {
    match digest {
        Some(digest) if !exists(sql, digest)? => Err(StoreError::missing_body(argument)),
        _ => Ok(()),
    }
}
