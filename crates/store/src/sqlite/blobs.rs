//! Bodies addressed by the digest of their canonical bytes.

use std::borrow::Cow;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_core::{
    canonical::{self, CanonicalJson, Digest},
    envelope::BlobRef,
    message::{Content, Message},
    time::Timestamp,
};

use super::{
    SqliteStore,
    access::Tx,
    columns::{Bytes, Uint},
    splice::{self, LEAST, Source, Spliced},
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

/// A body that is in the store. Only one that is stored whole may be referred to by a spliced one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored {
    pub(super) number: i64,
    pub(super) whole: bool,
}

impl Stored {
    /// What of the body others may refer to, from where these parts of it are.
    pub(super) fn sources(self, parts: &[(usize, String)]) -> Vec<Source> {
        let source =
            |(offset, text): &(usize, String)| Source { body: self.number, offset: *offset, text: text.clone() };
        parts.iter().filter(|_| self.whole).map(source).collect()
    }
}

pub(super) fn find(sql: &Connection, digest: Digest) -> Result<Option<Stored>> {
    let found = sql
        .prepare_cached(
            "SELECT number, substr(body, 1, 1) <> x'03' FROM blobs
             WHERE substr(digest, 1, 8) = substr(?1, 1, 8) AND digest = ?1",
        )?
        .query_row([Bytes(digest)], |row| Ok(Stored { number: row.get(0)?, whole: row.get(1)? }))
        .optional()?;
    Ok(found)
}

/// Stores a body that a row is about to refer to. Parts of it may be stored as references to `sources`.
pub(super) fn put(sql: &Connection, body: &Body, sources: &[Source]) -> Result<Stored> {
    match find(sql, body.digest)? {
        Some(stored) => Ok(stored),
        None => insert(sql, body, None, sources),
    }
}

/// Stores a body that a workflow may hold the only reference to. Storing it again keeps it for longer.
fn put_unreferenced(tx: &Tx<'_>, body: &Body) -> Result<()> {
    let Some(Stored { number, .. }) = find(tx.sql, body.digest)? else {
        return insert(tx.sql, body, Some(tx.now), &[]).map(drop);
    };
    let stale = Timestamp(tx.now.0.saturating_sub(PUT_GRAIN.0));
    tx.sql
        .prepare_cached("UPDATE blobs SET put_at = ?2 WHERE number = ?1 AND (put_at IS NULL OR put_at < ?3)")?
        .execute(params![number, Uint::from(tx.now), Uint::from(stale)])?;
    Ok(())
}

fn insert(sql: &Connection, body: &Body, put_at: Option<Timestamp>, sources: &[Source]) -> Result<Stored> {
    let (stored, targets) = splice::stored(utf8(&body.bytes)?, sources);
    sql.prepare_cached("INSERT INTO blobs (digest, put_at, body) VALUES (?1, ?2, ?3)")?.execute(params![
        Bytes(body.digest),
        put_at.map(Uint::from),
        stored
    ])?;
    let number = sql.last_insert_rowid();
    for target in &targets {
        sql.prepare_cached("INSERT INTO splices (body, target) VALUES (?1, ?2)")?.execute([number, *target])?;
    }
    for file in files_of(&body.bytes) {
        sql.prepare_cached("INSERT INTO body_refs (body, target) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
            .execute(params![number, Bytes(file)])?;
    }
    Ok(Stored { number, whole: targets.is_empty() })
}

/// Stores whole what refers to this body, so that it can be deleted.
pub(super) fn detach(sql: &Connection, target: i64) -> Result<()> {
    let bodies: Vec<i64> = sql
        .prepare_cached("SELECT body FROM splices WHERE target = ?1")?
        .query_map([target], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for body in bodies {
        let bytes: Vec<u8> =
            sql.prepare_cached("SELECT body FROM blobs WHERE number = ?1")?.query_row([body], |row| row.get(0))?;
        let (whole, _) = splice::stored(utf8(&open(sql, &bytes)?)?, &[]);
        sql.prepare_cached("UPDATE blobs SET body = ?2 WHERE number = ?1")?.execute(params![body, whole])?;
        sql.prepare_cached("DELETE FROM splices WHERE body = ?1")?.execute([body])?;
    }
    Ok(())
}

/// How a reference to a file begins in canonical JSON. The text of a message cannot contain it: quotes are escaped there.
const FILE: &str = r#""blob":{"#;

/// The bodies that a message refers to. Anything of this shape counts.
fn files_of(body: &[u8]) -> Vec<Digest> {
    let may_refer = std::str::from_utf8(body).is_ok_and(|body| body.contains(FILE));
    let value = may_refer.then(|| serde_json::from_slice::<Value>(body).ok()).flatten();
    let mut files = Vec::new();
    if let Some(value) = &value {
        collect_files(value, &mut files);
    }
    files
}

/// No deeper than the JSON that `serde_json` reads.
fn collect_files(value: &Value, files: &mut Vec<Digest>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect_files(value, files)),
        Value::Object(fields) => {
            let digest = fields.get("blob").and_then(|blob| blob.as_object()?.get("digest")?.as_str());
            files.extend(digest.and_then(Digest::parse));
            fields.values().for_each(|value| collect_files(value, files));
        }
        _ => {}
    }
}

/// Results of tools in messages, each of which may be a body of its own.
pub(super) fn results_in(messages: &[Message]) -> Vec<(Digest, CanonicalJson)> {
    let results = messages.iter().flat_map(|message| &message.parts).filter_map(|part| match &part.content {
        Content::ToolResult { content, .. } if content.as_str().len() >= LEAST => Some(content),
        _ => None,
    });
    results.map(|content| (content.digest(), content.clone())).collect()
}

/// Those results that are stored whole.
pub(super) fn sources_of(sql: &Connection, results: &[(Digest, CanonicalJson)]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for (digest, result) in results {
        if let Some(Stored { number, whole: true }) = find(sql, *digest)? {
            sources.push(Source { body: number, offset: 0, text: result.as_str().to_owned() });
        }
    }
    Ok(sources)
}

/// The long texts and arguments of a message as they stand in its body, with their places.
pub(super) fn parts_in(message: &Message, body: &[u8]) -> Vec<(usize, String)> {
    let Ok(body) = std::str::from_utf8(body) else { return Vec::new() };
    let texts = message.parts.iter().filter_map(|part| match &part.content {
        Content::Text { text } if text.len() >= LEAST => canonical::text_of(text).ok(),
        Content::ToolUse { input, .. } if input.as_str().len() >= LEAST => Some(input.as_str().to_owned()),
        _ => None,
    });
    texts.filter_map(|text| Some((body.find(&text)?, text))).collect()
}

/// The text that a column holds in any of its forms.
pub(super) fn open<'s>(sql: &Connection, stored: &'s [u8]) -> Result<Cow<'s, [u8]>> {
    Spliced::of(stored)?.whole(|number| whole(sql, number))
}

/// As [`open`], decoded.
pub(super) fn open_json<T: DeserializeOwned>(sql: &Connection, row: &Row<'_>, column: usize) -> Result<T> {
    let stored = row.get_ref(column)?.as_bytes().map_err(rusqlite::Error::from)?;
    serde_json::from_slice(&open(sql, stored)?).map_err(|error| StoreError::Corrupt { detail: error.to_string() })
}

/// As [`open_json`], if there is anything.
pub(super) fn open_optional<T: DeserializeOwned>(sql: &Connection, row: &Row<'_>, column: usize) -> Result<Option<T>> {
    match row.get_ref(column)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => open_json(sql, row, column).map(Some),
    }
}

/// A body that is referred to.
fn whole(sql: &Connection, number: i64) -> Result<Vec<u8>> {
    let corrupt =
        |problem: &str| StoreError::Corrupt { detail: format!("body {number}, which it refers to, {problem}") };
    let stored: Vec<u8> = sql
        .prepare_cached("SELECT body FROM blobs WHERE number = ?1")?
        .query_row([number], |row| row.get(0))
        .optional()?
        .ok_or_else(|| corrupt("is missing"))?;
    if splice::is_spliced(&stored) {
        return Err(corrupt("is not stored whole"));
    }
    let Spliced { literal, .. } = Spliced::of(&stored)?;
    Ok(literal.into_owned())
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| StoreError::Corrupt { detail: error.to_string() })
}

fn get(sql: &Connection, digest: Digest) -> Result<Option<CanonicalJson>> {
    sql.prepare_cached("SELECT body FROM blobs WHERE substr(digest, 1, 8) = substr(?1, 1, 8) AND digest = ?1")?
        .query_row([Bytes(digest)], |row| row.get::<_, Vec<u8>>(0))
        .optional()?
        .map(|stored| text(digest, open(sql, &stored)?.into_owned()))
        .transpose()
}

/// Reads a body from a row that begins with `digest, body`.
pub(super) fn from_row<T: DeserializeOwned>(sql: &Connection, row: &Row<'_>) -> Result<(Digest, T)> {
    let Bytes(digest) = row.get(0)?;
    let stored = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
    Ok((digest, decode(digest, &open(sql, stored)?)?))
}

/// A body that is to be referred to.
pub(super) fn require(sql: &Connection, argument: &'static str, digest: Option<Digest>) -> Result<Option<i64>> {
    let Some(digest) = digest else { return Ok(None) };
    let found = find(sql, digest)?.ok_or_else(|| StoreError::missing_body(argument))?;
    Ok(Some(found.number))
}

impl From<splice::Unreadable> for StoreError {
    fn from(error: splice::Unreadable) -> Self {
        Self::Corrupt { detail: error.to_string() }
    }
}
