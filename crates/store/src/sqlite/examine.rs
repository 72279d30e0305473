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
use windlass_sqlite::{Examined, Progress, TableCheck};

use super::{
    approvals, blobs,
    columns::{Hex, Json, RawText, Uint},
    keys, push, runs, secrets, sessions,
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
        look.table("bodies", "SELECT digest, body, digest FROM blobs", |row| {
            let Hex(digest) = row.get(0)?;
            let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            body::decode::<Value>(digest, bytes).map(drop)
        })?,
        look.logs()?,
        look.transcripts()?,
        look.table("plans", "SELECT output, run_id FROM plans", |row| {
            Ok(row.get::<_, Option<Json<PlanActivityOutput>>>(0).map(drop)?)
        })?,
        look.table("calls", "SELECT output, result, run_id FROM tool_calls", |row| {
            row.get::<_, Option<Json<ToolOutput>>>(0)?;
            Ok(row.get::<_, Option<Hex>>(1).map(drop)?)
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

    /// Events can be read, begin with 1, have no gaps, and reach as far as their run says.
    fn logs(&self) -> Result<Examined> {
        let mut at = (RawText(Vec::new()), 0);
        let mut found =
            self.table("events", "SELECT seq, at, data, type, run_id FROM events ORDER BY run_id, seq", |row| {
                let (run, Uint(seq)) = (RawText::of(row, 4)?, row.get(0)?);
                let expected = if at.0 == run { at.1 + 1 } else { 1 };
                at = (run, seq);
                if seq != expected {
                    return Err(damaged(format!("event {expected} is missing, {seq} comes next")));
                }
                row.get::<_, Uint>(1)?;
                row.get::<_, Json<Value>>(2).map_err(|error| damaged(format!("event {seq}: {error}")))?;
                Ok(())
            })?;
        let ends = self.table(
            "events",
            "SELECT last_seq, (SELECT max(seq) FROM events WHERE run_id = runs.id), id FROM runs",
            |row| match (row.get::<_, Uint>(0)?.0, row.get::<_, Option<Uint>>(1)?.map_or(0, |Uint(seq)| seq)) {
                (expected, last) if expected == last => Ok(()),
                (expected, last) => Err(damaged(format!("its log ends with event {last}, not {expected}"))),
            },
        )?;
        ends.problems.into_iter().for_each(|problem| found.problem(problem));
        found.more += ends.more;
        Ok(found)
    }

    /// Messages are there, are messages, and add up to the chain that was written with each. A run's own messages continue
    /// from the part of the conversation that it refers to.
    fn transcripts(&self) -> Result<Examined> {
        let mut at = (RawText(Vec::new()), TranscriptHead::default());
        self.table(
            "messages",
            "SELECT own.digest, body, own.chain, own.idx, coalesce(prefix_len, 0), said.chain, own.run_id
             FROM run_messages AS own LEFT JOIN blobs ON blobs.digest = own.digest LEFT JOIN runs ON runs.id = own.run_id
                 LEFT JOIN session_messages AS said ON said.workspace = runs.workspace AND said.session = runs.session
                     AND said.idx = prefix_len - 1
             ORDER BY own.run_id, own.idx",
            |row| {
                let run = RawText::of(row, 6)?;
                if at.0 != run {
                    let digest = row.get::<_, Option<Hex>>(5)?.map_or(Digest::ZERO, |Hex(digest)| digest);
                    at = (run, TranscriptHead { len: row.get::<_, Uint>(4)?.0, digest });
                }
                continues(&mut at.1, row)
            },
        )
    }

    /// The files that messages refer to are there.
    fn files(&self) -> Result<Examined> {
        self.table(
            "files",
            "SELECT blobs.digest, blobs.body, target, EXISTS (SELECT 1 FROM blobs WHERE digest = target), body_refs.body
             FROM body_refs JOIN blobs ON blobs.digest = body_refs.body",
            |row| {
                let Hex(target) = row.get(2)?;
                if row.get::<_, bool>(3)? || !refers_to(row, target) {
                    return Ok(());
                }
                Err(damaged(format!("the file {target} is missing")))
            },
        )
    }

    fn conversations(&self) -> Result<Examined> {
        let mut at = (RawText(Vec::new()), RawText(Vec::new()), TranscriptHead::default());
        self.table(
            "conversations",
            "SELECT session_messages.digest, body, chain, idx, workspace, session
             FROM session_messages LEFT JOIN blobs USING (digest) ORDER BY workspace, session, idx",
            |row| {
                let (workspace, session) = (RawText::of(row, 4)?, RawText::of(row, 5)?);
                if (&at.0, &at.1) != (&workspace, &session) {
                    at = (workspace, session, TranscriptHead::default());
                }
                continues(&mut at.2, row)
            },
        )
    }
}

/// A row that begins with `digest, body, chain, idx` continues from `head`, which moves on. A message that a build without
/// chains has added has none.
fn continues(head: &mut TranscriptHead, row: &Row<'_>) -> Result<()> {
    let (Hex(digest), chain, Uint(idx)) = (row.get(0)?, row.get::<_, Option<Hex>>(2)?, row.get(3)?);
    let expected = head.push(digest);
    *head = TranscriptHead { len: idx + 1, digest: chain.map_or(expected.digest, |Hex(digest)| digest) };
    if *head != expected {
        return Err(damaged(format!("message {idx} does not continue from the one before it")));
    }
    message(row, digest)
}

/// Whether a row that begins with `digest, body` is a message with this file. Other bodies, for example a tool's result, may
/// have something that only looks like a reference.
fn refers_to(row: &Row<'_>, file: Digest) -> bool {
    blobs::from_row::<Message>(row)
        .is_ok_and(|(_, message)| stored_files(&message.parts).iter().any(|blob| blob.digest == file))
}

/// A row that begins with `digest, body`, where the body may be missing.
fn message(row: &Row<'_>, digest: Digest) -> Result<()> {
    if row.get_ref(1)? == rusqlite::types::ValueRef::Null {
        return Err(damaged(format!("its body {digest} is missing")));
    }
    blobs::from_row::<Message>(row).map(drop)
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
