//! The journal of model responses: a response that was paid for once is never asked for again.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};
use windlass_core::{
    envelope::{PlanActivityOutput, TranscriptHead},
    ids::{RunId, WorkspaceId},
};

use super::{SqliteStore, access::Tx, approvals, columns::Json, events, runs, transcript};
use crate::{
    JournalledPlan, ModelJournal, PlanBegin, PlanBeginning, PlanCommit, Result, StoreError, body::Body, entry::Entry,
    rows::owners_of,
};

#[async_trait]
impl ModelJournal for SqliteStore {
    async fn begin_plan(&self, begin: PlanBegin) -> Result<PlanBeginning> {
        let beginning = Beginning {
            messages: Body::all_of(&begin.messages)?,
            events: Entry::all_of(&begin.events)?,
            owners: owners_of(&begin.run, begin.session.as_ref()),
            run: begin.run,
            workspace: begin.workspace,
            turn: begin.turn,
            head: begin.head,
        };
        self.parts.write_relaxed(move |tx| begin_turn(tx, &beginning)).await
    }

    async fn commit_plan(&self, commit: PlanCommit) -> Result<JournalledPlan> {
        let response = Response {
            message: Body::of(&commit.message)?,
            events: Entry::all_of(&commit.events)?,
            run: commit.run,
            turn: commit.turn,
            head: commit.head,
            output: commit.output,
        };
        // It was paid for, and took longer than any disk does.
        self.parts.write(move |tx| commit_response(tx, &response)).await
    }

    async fn settle_plan(&self, run: &RunId, turn: u32) -> Result<Option<JournalledPlan>> {
        let run = run.clone();
        self.parts.write_relaxed(move |tx| settle(tx, &run, turn)).await
    }
}

/// A turn on its way to the model.
struct Beginning {
    run: RunId,
    workspace: WorkspaceId,
    /// Whose approval rules the run follows.
    owners: Vec<(&'static str, String)>,
    turn: u32,
    head: TranscriptHead,
    messages: Vec<Body>,
    events: Vec<Entry>,
}

/// A response on its way into the journal.
struct Response {
    run: RunId,
    turn: u32,
    head: TranscriptHead,
    message: Body,
    output: PlanActivityOutput,
    events: Vec<Entry>,
}

/// What the journal says about a turn.
enum JournalEntry {
    Nothing,
    Response(Box<JournalledPlan>),
    GivenUp,
}

fn journal_entry(sql: &Connection, run: &RunId, turn: u32) -> Result<JournalEntry> {
    let row = sql
        .prepare_cached("SELECT output FROM plans WHERE run_id = ?1 AND turn = ?2")?
        .query_row(params![run.as_str(), turn], |row| row.get::<_, Option<Json<_>>>(0))
        .optional()?;
    Ok(match row {
        None => JournalEntry::Nothing,
        Some(None) => JournalEntry::GivenUp,
        Some(Some(Json(output))) => JournalEntry::Response(Box::new(JournalledPlan { output })),
    })
}

fn begin_turn(tx: &mut Tx<'_>, beginning: &Beginning) -> Result<PlanBeginning> {
    let Beginning { run, workspace, owners, turn, head, messages, events } = beginning;
    match journal_entry(tx.sql, run, *turn)? {
        JournalEntry::Response(plan) => return Ok(PlanBeginning::Journalled(plan)),
        JournalEntry::GivenUp => return Err(StoreError::TurnGivenUp { run: run.clone(), turn: *turn }),
        JournalEntry::Nothing => {}
    }
    let head = transcript::append(tx, run, *head, messages)?.head;
    events::append(tx, run, events)?;
    Ok(PlanBeginning::Ask { head, rules: approvals::rules_for(tx.sql, workspace, owners)? })
}

/// The response of a turn whose executor went silent; without one the turn is given up for good.
fn settle(tx: &Tx<'_>, run: &RunId, turn: u32) -> Result<Option<JournalledPlan>> {
    if let JournalEntry::Response(plan) = journal_entry(tx.sql, run, turn)? {
        return Ok(Some(*plan));
    }
    runs::require(tx.sql, run)?;
    tx.sql
        .prepare_cached("INSERT INTO plans (run_id, turn) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![run.as_str(), turn])?;
    Ok(None)
}

fn commit_response(tx: &mut Tx<'_>, response: &Response) -> Result<JournalledPlan> {
    let Response { run, turn, head, message, output, events } = response;
    match journal_entry(tx.sql, run, *turn)? {
        JournalEntry::Response(first) => return Ok(*first),
        JournalEntry::GivenUp => return Err(StoreError::TurnGivenUp { run: run.clone(), turn: *turn }),
        JournalEntry::Nothing => {}
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
