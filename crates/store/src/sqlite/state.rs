//! What a write reads and changes of a run's row: read once at its beginning, written once at its end.

use rusqlite::{Connection, OptionalExtension as _, params};
use windlass_core::{
    envelope::TranscriptHead,
    ids::RunId,
    run::{Phase, RunStatus},
    time::Timestamp,
};

use super::{
    access::Tx,
    columns::{Bytes, Json, Uint, Word},
};
use crate::{Ending, Result, StoreError};

pub(super) struct RunState {
    pub(super) id: RunId,
    pub(super) number: i64,
    /// The head of all messages.
    pub(super) head: TranscriptHead,
    pub(super) last_seq: u64,
    /// From then on the log takes no new key.
    pub(super) closed_at: Option<Timestamp>,
    logged: u64,
    shows: Option<(RunStatus, Phase)>,
    ending: Option<Ending>,
    changed: bool,
}

impl RunState {
    pub(super) fn find(sql: &Connection, run: &RunId) -> Result<Option<Self>> {
        let found = sql
            .prepare_cached("SELECT number, head_len, head_digest, last_seq, closed_at FROM runs WHERE id = ?1")?
            .query_row([run.as_str()], |row| {
                let last_seq = row.get::<_, Uint>(3)?.0;
                Ok(Self {
                    id: run.clone(),
                    number: row.get(0)?,
                    head: TranscriptHead { len: row.get::<_, Uint>(1)?.0, digest: row.get::<_, Bytes>(2)?.0 },
                    last_seq,
                    closed_at: row.get::<_, Option<Uint>>(4)?.map(Timestamp::from),
                    logged: last_seq,
                    shows: None,
                    ending: None,
                    changed: false,
                })
            })
            .optional()?;
        Ok(found)
    }

    pub(super) fn of(sql: &Connection, run: &RunId) -> Result<Self> {
        Self::find(sql, run)?.ok_or_else(|| StoreError::RunNotFound { run: run.clone() })
    }

    pub(super) fn reaches(&mut self, head: TranscriptHead) {
        self.head = head;
        self.changed = true;
    }

    /// The log has one event more.
    pub(super) fn logs(&mut self) {
        self.last_seq += 1;
        self.changed = true;
    }

    pub(super) fn shows(&mut self, status: RunStatus, phase: Phase) {
        self.shows = Some((status, phase));
        self.changed = true;
    }

    pub(super) fn ends(&mut self, at: Timestamp, ending: &Ending) {
        self.closed_at = Some(at);
        self.ending = Some(ending.clone());
        self.changed = true;
    }

    /// Writes the row, if anything has changed.
    pub(super) fn save(self, tx: &mut Tx<'_>) -> Result<()> {
        if !self.changed {
            return Ok(());
        }
        let (status, phase) = self.shows.unzip();
        tx.sql
            .prepare_cached(
                "UPDATE runs SET head_len = ?2, head_digest = ?3, last_seq = ?4, updated_at = ?5,
                     status = coalesce(?6, status), phase = coalesce(?7, phase)
                 WHERE number = ?1",
            )?
            .execute(params![
                self.number,
                Uint(self.head.len),
                Bytes(self.head.digest),
                Uint(self.last_seq),
                Uint::from(tx.now),
                status.map(Word),
                phase.map(Word),
            ])?;
        // Apart, because it moves the run from one index to another.
        if let (Some(ending), Some(closed_at)) = (&self.ending, self.closed_at) {
            tx.sql
                .prepare_cached("UPDATE runs SET ending = ?2, closed_at = ?3 WHERE number = ?1")?
                .execute(params![self.number, Json(ending), Uint::from(closed_at)])?;
        }
        if self.last_seq > self.logged {
            tx.log_reaches(&self.id, self.last_seq);
        }
        Ok(())
    }
}
