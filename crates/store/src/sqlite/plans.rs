//! The journal of model responses: a response that was paid for once is never asked for again.

use rusqlite::{Connection, OptionalExtension as _, params};
use windlass_core::{
    envelope::{PlanActivityOutput, TranscriptHead},
    ids::RunId,
};

use super::{
    blobs::Body,
    columns::Json,
    events::{self, Entry},
    transcript,
    writer::Tx,
};
use crate::{JournalledPlan, Result};

/// A response on its way into the journal.
pub(super) struct Response {
    pub(super) run: RunId,
    pub(super) turn: u32,
    pub(super) head: TranscriptHead,
    pub(super) message: Body,
    pub(super) output: PlanActivityOutput,
    pub(super) events: Vec<Entry>,
}

pub(super) fn find(sql: &Connection, run: &RunId, turn: u32) -> Result<Option<JournalledPlan>> {
    let output = sql
        .prepare_cached("SELECT output FROM plans WHERE run_id = ?1 AND turn = ?2")?
        .query_row(params![run.as_str(), turn], |row| row.get::<_, Json<_>>(0))
        .optional()?;
    Ok(output.map(|Json(output)| JournalledPlan { output }))
}

pub(super) fn commit(tx: &mut Tx<'_>, response: Response) -> Result<JournalledPlan> {
    let Response { run, turn, head, message, mut output, events } = response;
    if let Some(first) = find(tx.sql, &run, turn)? {
        return Ok(first);
    }
    output.head = transcript::append(tx, &run, head, &[message])?.head;
    events::append(tx, &run, &events)?;
    tx.sql.prepare_cached("INSERT INTO plans (run_id, turn, output) VALUES (?1, ?2, ?3)")?.execute(params![
        run.as_str(),
        turn,
        Json(&output)
    ])?;
    Ok(JournalledPlan { output })
}
