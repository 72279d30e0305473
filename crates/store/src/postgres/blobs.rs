//! Bodies addressed by the digest of their canonical bytes.

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use windlass_core::{
    canonical::{CanonicalJson, Digest},
    envelope::BlobRef,
    time::Timestamp,
};

use super::{
    PostgresStore,
    access::Sql,
    columns::{Columns as _, hex, millis},
};
use crate::{
    Blobs, Result, StoreError,
    body::{Body, decode, text},
    sweeping::PUT_GRAIN,
};

#[async_trait]
impl Blobs for PostgresStore {
    async fn put_blob(&self, body: CanonicalJson) -> Result<BlobRef> {
        let body = Body::of_any_size(body).await?;
        put_unreferenced(&mut self.parts.autocommit().await?, &body).await?;
        Ok(body.reference())
    }

    async fn blob(&self, digest: &Digest) -> Result<Option<CanonicalJson>> {
        get(&mut self.parts.autocommit().await?, *digest).await
    }
}

/// Stores bodies, always in the order of their digests: two writers that wait for each other's bodies would wait for ever.
pub(super) async fn put(sql: &mut Sql, bodies: &[&Body]) -> Result<()> {
    let mut bodies = bodies.to_vec();
    bodies.sort_by_key(|body| body.digest);
    bodies.dedup_by_key(|body| body.digest);
    let digests: Vec<String> = bodies.iter().map(|body| hex(body.digest)).collect();
    let bytes: Vec<&[u8]> = bodies.iter().map(|body| body.bytes.as_slice()).collect();
    sql.execute(
        "INSERT INTO blobs (digest, body) SELECT * FROM unnest($1::TEXT[], $2::BYTEA[]) ON CONFLICT DO NOTHING",
        &[&digests, &bytes],
    )
    .await?;
    Ok(())
}

/// Stores a body that a workflow may hold the only reference to. Storing it again keeps it for longer.
async fn put_unreferenced(sql: &mut Sql, body: &Body) -> Result<()> {
    let stale = Timestamp(sql.now.0.saturating_sub(PUT_GRAIN.0));
    let now = millis(sql.now);
    sql.execute(
        "INSERT INTO blobs (digest, body, put_at) VALUES ($1, $2, $3)
         ON CONFLICT (digest) DO UPDATE SET put_at = excluded.put_at WHERE blobs.put_at IS NULL OR blobs.put_at < $4",
        &[&hex(body.digest), &body.bytes, &now, &millis(stale)],
    )
    .await?;
    Ok(())
}

async fn get(sql: &mut Sql, digest: Digest) -> Result<Option<CanonicalJson>> {
    let row = sql.query_opt("SELECT body FROM blobs WHERE digest = $1", &[&hex(digest)]).await?;
    row.map(|row| text(digest, row.bytes("body")?.to_vec())).transpose()
}

pub(super) async fn exists(sql: &mut Sql, digest: Digest) -> Result<bool> {
    Ok(sql.query_opt("SELECT 1 FROM blobs WHERE digest = $1", &[&hex(digest)]).await?.is_some())
}

/// A body that is to be referred to.
pub(super) async fn require(sql: &mut Sql, argument: &'static str, digest: Option<Digest>) -> Result<()> {
    match digest {
        Some(digest) if !exists(sql, digest).await? => Err(StoreError::missing_body(argument)),
        _ => Ok(()),
    }
}

/// Reads a body from a row with `digest` and `body`.
pub(super) fn from_row<T: DeserializeOwned>(row: &Row) -> Result<(Digest, T)> {
    let digest = row.digest("digest")?;
    Ok((digest, decode(digest, row.bytes("body")?)?))
}
