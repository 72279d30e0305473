//! A thorough look at the store's rows: each can be decoded, each body has its digest, each log is gapless, each transcript
//! adds up to its head.

use rusqlite::{Connection, Row};
use serde_json::Value;
use windlass_core::{
    approval::OwnRules,
    canonical::Digest,
    envelope::{PlanActivityOutput, ToolOutput, TranscriptHead},
    message::{Message, stored_files},
};
use windlass_sqlite::{Examined, Progress, TableCheck, short_hash};

use super::{
    approvals, blobs,
    columns::{Bytes, Json, RawText, Uint},
    events, keys, push, runs, secrets, sessions,
    splice::Spliced,
};
use crate::{Result, StoreError, body};

/// Looks at every row. A row that is not well is told and does not end the look; a page that cannot be read ends the look
/// at its table. `progress` counts rows.
pub fn examine(sql: &Connection, progress: &Progress) -> Result<Vec<Examined>> {
    let look = Store(TableCheck { sql, progress });
    Ok(vec![
        look.table("runs", &format!("SELECT {}, id FROM runs", runs::COLUMNS), |row| {
            Ok(runs::from_row(row).map(drop)?)
        })?,
        look.table("sessions", &format!("SELECT {}, id FROM sessions", sessions::COLUMNS), |row| {
            Ok(sessions::from_row(row).map(drop)?)
        })?,
        look.table("keys", &format!("SELECT {}, id FROM api_keys", keys::COLUMNS), |row| {
            Ok(keys::from_row(row).map(drop)?)
        })?,
        look.table("secrets", &format!("SELECT {}, name FROM secrets", secrets::COLUMNS), |row| {
            Ok(secrets::row_of(row).map(drop)?)
        })?,
        look.table("grants", "SELECT body, revoked_at, id FROM approval_grants", |row| {
            Ok(approvals::grant_of(row).map(drop)?)
        })?,
        look.table("rules", "SELECT body, owner_id FROM approval_rules", |row| {
            Ok(row.get::<_, Json<OwnRules>>(0).map(drop)?)
        })?,
        look.table("push configs", &format!("SELECT {}, id FROM push_configs", push::COLUMNS), |row| {
            Ok(push::from_row(row).map(drop)?)
        })?,
        look.bodies()?,
        look.logs()?,
        look.transcripts()?,
        look.table("plans", "SELECT output, id FROM plans JOIN runs ON runs.number = run", |row| {
            blobs::open_optional::<PlanActivityOutput>(sql, row, 0).map(drop)
        })?,
        look.table("calls", "SELECT output, late_output, id FROM tool_calls JOIN runs ON runs.number = run", |row| {
            blobs::open_optional::<ToolOutput>(sql, row, 0)?;
            blobs::open_optional::<ToolOutput>(sql, row, 1).map(drop)
        })?,
        look.conversations()?,
        look.files()?,
        look.table("notes", "SELECT text, updated_at, key FROM notes", |row| {
            row.get::<_, String>(0)?;
            Ok(row.get::<_, Uint>(1).map(drop)?)
        })?,
    ])
}

struct Store<'l>(TableCheck<'l>);

impl Store<'_> {
    fn table(
        &self,
        what: &'static str,
        statement: &str,
        mut look: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<Examined> {
        Ok(self.0.table(what, statement, |row| look(row).map_err(|error| reason(&error)))?)
    }

    /// Bodies can be read, have their digests, and refer to what they are said to refer to.
    fn bodies(&self) -> Result<Examined> {
        let sql = self.0.sql;
        self.table("bodies", "SELECT digest, body, blobs.number, lower(hex(digest)) FROM blobs", |row| {
            let Bytes(digest) = row.get(0)?;
            let stored = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            body::decode::<Value>(digest, &blobs::open(sql, stored)?)?;
            for (_, stretch) in Spliced::of(stored)?.references {
                let known = sql
                    .prepare_cached("SELECT 1 FROM splices WHERE body = ?1 AND target = ?2")?
                    .exists([row.get(2)?, stretch.body])?;
                if !known {
                    return Err(damaged(format!("nothing keeps body {}, which it refers to", stretch.body)));
                }
            }
            Ok(())
        })
    }

    /// Events can be read, begin with 1, have no gaps, are found by their keys, and reach as far as their run says.
    fn logs(&self) -> Result<Examined> {
        let sql = self.0.sql;
        let mut at = (RawText(Vec::new()), 0);
        let mut found = self.table(
            "events",
            "SELECT seq, at, body, key_hash, id FROM events JOIN runs ON runs.number = run ORDER BY id, seq",
            |row| {
                let (run, Uint(seq)) = (RawText::of(row, 4)?, row.get(0)?);
                let expected = if at.0 == run { at.1 + 1 } else { 1 };
                at = (run, seq);
                if seq != expected {
                    return Err(damaged(format!("event {expected} is missing, {seq} comes next")));
                }
                row.get::<_, Uint>(1)?;
                event(sql, row).map_err(|error| damaged(format!("event {seq}: {}", reason(&error))))
            },
        )?;
        let ends = self.table(
            "events",
            "SELECT last_seq, (SELECT max(seq) FROM events WHERE run = runs.number), id FROM runs",
            |row| match (row.get::<_, Uint>(0)?.0, row.get::<_, Option<Uint>>(1)?.map_or(0, |Uint(seq)| seq)) {
                (expected, last) if expected == last => Ok(()),
                (expected, last) => Err(damaged(format!("its log ends with event {last}, not {expected}"))),
            },
        )?;
        ends.problems.into_iter().for_each(|problem| found.problem(problem));
        found.more += ends.more;
        Ok(found)
    }

    /// Messages are there, are messages, and add up to the head in the row of their run. A run's own messages continue from
    /// the part of the conversation that it refers to.
    fn transcripts(&self) -> Result<Examined> {
        let sql = self.0.sql;
        let mut at = (RawText(Vec::new()), TranscriptHead::default());
        self.table(
            "messages",
            "SELECT blobs.digest, body, idx, prefix_len, head_len, head_digest,
                 (SELECT chain FROM session_messages AS said WHERE said.workspace = runs.workspace
                      AND said.session = runs.session AND said.idx = prefix_len - 1), id
             FROM run_messages AS own LEFT JOIN blobs ON blobs.number = blob JOIN runs ON runs.number = run
             ORDER BY id, idx",
            |row| {
                let (run, Uint(idx)) = (RawText::of(row, 7)?, row.get(2)?);
                if at.0 != run {
                    let digest = row.get::<_, Option<Bytes>>(6)?.map_or(Digest::ZERO, |Bytes(digest)| digest);
                    at = (run, TranscriptHead { len: row.get::<_, Uint>(3)?.0, digest });
                }
                let head = TranscriptHead { len: row.get::<_, Uint>(4)?.0, digest: row.get::<_, Bytes>(5)?.0 };
                let Some(Bytes(digest)) = row.get(0)? else {
                    return Err(damaged(format!("the body of message {idx} is missing")));
                };
                let missing = idx != at.1.len;
                at.1 = TranscriptHead { len: idx, ..at.1 }.push(digest);
                if missing || (at.1.len == head.len && at.1 != head) {
                    return Err(damaged(format!("message {idx} does not continue from the one before it")));
                }
                message(sql, row)
            },
        )
    }

    /// The files that messages refer to are there.
    fn files(&self) -> Result<Examined> {
        let sql = self.0.sql;
        self.table(
            "files",
            "SELECT blobs.digest, blobs.body, target, EXISTS (SELECT 1 FROM blobs WHERE digest = target),
                 lower(hex(blobs.digest))
             FROM body_refs JOIN blobs ON blobs.number = body_refs.body",
            |row| {
                let Bytes(target) = row.get(2)?;
                if row.get::<_, bool>(3)? || !refers_to(sql, row, target) {
                    return Ok(());
                }
                Err(damaged(format!("the file {target} is missing")))
            },
        )
    }

    fn conversations(&self) -> Result<Examined> {
        let sql = self.0.sql;
        let mut at = (RawText(Vec::new()), RawText(Vec::new()), TranscriptHead::default());
        self.table(
            "conversations",
            "SELECT digest, body, chain, idx, workspace, session
             FROM session_messages LEFT JOIN blobs ON number = blob ORDER BY workspace, session, idx",
            |row| {
                let (workspace, session) = (RawText::of(row, 4)?, RawText::of(row, 5)?);
                if (&at.0, &at.1) != (&workspace, &session) {
                    at = (workspace, session, TranscriptHead::default());
                }
                continues(sql, &mut at.2, row)
            },
        )
    }
}

/// A row whose third and fourth columns are an event's body and the hash of its key.
fn event(sql: &Connection, row: &Row<'_>) -> Result<()> {
    let body = blobs::open(sql, row.get_ref(2)?.as_bytes().map_err(rusqlite::Error::from)?)?;
    let (_, data, key) = events::split(&body)?;
    if short_hash(key) != row.get::<_, i32>(3)? {
        return Err(damaged(format!("it is not found by its key {key}")));
    }
    serde_json::from_str::<Value>(data).map(drop).map_err(|error| damaged(error.to_string()))
}

/// A row that begins with `digest, body, chain, idx` continues from `head`, which moves on. A message that a build without
/// chains has added has none.
fn continues(sql: &Connection, head: &mut TranscriptHead, row: &Row<'_>) -> Result<()> {
    let (chain, Uint(idx)) = (row.get::<_, Option<Bytes>>(2)?, row.get(3)?);
    let Some(Bytes(digest)) = row.get(0)? else {
        return Err(damaged(format!("the body of message {idx} is missing")));
    };
    let expected = head.push(digest);
    *head = TranscriptHead { len: idx + 1, digest: chain.map_or(expected.digest, |Bytes(digest)| digest) };
    if *head != expected {
        return Err(damaged(format!("message {idx} does not continue from the one before it")));
    }
    message(sql, row)
}

/// Whether a row that begins with `digest, body` is a message with this file. Other bodies, for example a tool's result, may
/// have something that only looks like a reference.
fn refers_to(sql: &Connection, row: &Row<'_>, file: Digest) -> bool {
    blobs::from_row::<Message>(sql, row)
        .is_ok_and(|(_, message)| stored_files(&message.parts).iter().any(|blob| blob.digest == file))
}

/// A row that begins with `digest, body`.
fn message(sql: &Connection, row: &Row<'_>) -> Result<()> {
    blobs::from_row::<Message>(sql, row).map(drop)
}

fn damaged(detail: String) -> StoreError {
    StoreError::Corrupt { detail }
}

/// What is wrong with a row, without what to do about it.
fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Corrupt { detail } | StoreError::Damaged { detail } => detail.clone(),
        error => error.to_string(),
    }
}
