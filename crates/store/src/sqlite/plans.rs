//! The journal of model responses: a response that was paid for once is never asked for again.

use rusqlite::{Connection, OptionalExtension as _, params};
use windlass_core::{
    envelope::{PlanActivityOutput, TranscriptHead},
    ids::RunId,
};

use super::{access::Tx, columns::Json, events, runs, transcript};
use crate::{JournalledPlan, PlanBeginning, Result, StoreError, body::Body, entry::Entry};

/// A turn on its way to the model.
pub(super) struct Beginning {
    pub(super) run: RunId,
    pub(super) turn: u32,
    pub(super) head: TranscriptHead,
    pub(super) messages: Vec<Body>,
    pub(super) events: Vec<Entry>,
}

/// A response on its way into the journal.
pub(super) struct Response {
    pub(super) run: RunId,
    pub(super) turn: u32,
    pub(super) head: TranscriptHead,
    pub(super) message: Body,
    pub(super) output: PlanActivityOutput,
    pub(super) events: Vec<Entry>,
}

/// What the journal says about a turn.
enum Entered {
    Nothing,
    Response(Box<JournalledPlan>),
    GivenUp,
}

fn entered(sql: &Connection, run: &RunId, turn: u32) -> Result<Entered> {
    let row = sql
        .prepare_cached("SELECT output FROM plans WHERE run_id = ?1 AND turn = ?2")?
        .query_row(params![run.as_str(), turn], |row| row.get::<_, Option<Json<_>>>(0))
        .optional()?;
    Ok(match row {
        None => Entered::Nothing,
        Some(None) => Entered::GivenUp,
        Some(Some(Json(output))) => Entered::Response(Box::new(JournalledPlan { output })),
    })
}

pub(super) fn begin(tx: &mut Tx<'_>, beginning: &Beginning) -> Result<PlanBeginning> {
    let Beginning { run, turn, head, messages, events } = beginning;
    match entered(tx.sql, run, *turn)? {
        Entered::Response(plan) => return Ok(PlanBeginning::Journalled(plan)),
        Entered::GivenUp => return Err(StoreError::TurnGivenUp { run: run.clone(), turn: *turn }),
        Entered::Nothing => {}
    }
    let head = transcript::append(tx, run, *head, messages)?.head;
    events::append(tx, run, events)?;
    Ok(PlanBeginning::Ask(head))
}

/// The response of a turn whose executor went silent; without one the turn is given up for good.
pub(super) fn settle(tx: &Tx<'_>, run: &RunId, turn: u32) -> Result<Option<JournalledPlan>> {
    if let Entered::Response(plan) = entered(tx.sql, run, turn)? {
        return Ok(Some(*plan));
    }
    runs::require(tx.sql, run)?;
    tx.sql
        .prepare_cached("INSERT INTO plans (run_id, turn) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![run.as_str(), turn])?;
    Ok(None)
}

pub(super) fn commit(tx: &mut Tx<'_>, response: &Response) -> Result<JournalledPlan> {
    let Response { run, turn, head, message, output, events } = response;
    match entered(tx.sql, run, *turn)? {
        Entered::Response(first) => return Ok(*first),
        Entered::GivenUp => return Err(StoreError::TurnGivenUp { run: run.clone(), turn: *turn }),
        Entered::Nothing => {}
    }
    let head = transcript::append(tx, run, *head, std::slice::from_ref(message))?.head;
    events::append(tx, run, events)?;
    let output = PlanActivityOutput { head, ..output.clone() };
    tx.sql.prepare_cached("INSERT INTO plans (run_id, turn, output) VALUES (?1, ?2, ?3)")?.execute(params![
        run.as_str(),
        turn,
        Json(&output)
    ])?;
    Ok(JournalledPlan { output })
}
