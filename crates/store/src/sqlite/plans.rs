//! The journal of model responses: a response that was paid for once is never asked for again.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use windlass_core::{
    canonical::{CanonicalJson, Digest},
    envelope::{PlanActivityOutput, TranscriptHead},
    ids::{RunId, WorkspaceId},
};

use super::{SqliteStore, access::Tx, approvals, blobs, columns::Text, events, splice, state::RunState, transcript};
use crate::{
    JournalledPlan, ModelJournal, PlanBegin, PlanBeginning, PlanCommit, Result, StoreError, body::Body, entry::Entry,
    rows::owners_of,
};

#[async_trait]
impl ModelJournal for SqliteStore {
    async fn begin_plan(&self, begin: PlanBegin) -> Result<PlanBeginning> {
        let beginning = Beginning {
            messages: Body::all_of(&begin.messages)?,
            results: blobs::results_in(&begin.messages),
            events: Entry::all_of(&begin.events)?,
            owners: owners_of(&begin.run, begin.session.as_ref()),
            run: begin.run,
            workspace: begin.workspace,
            turn: begin.turn,
            head: begin.head,
        };
        self.parts.response_on_disk(&beginning.run).await?;
        self.parts.write_relaxed(move |tx| begin_turn(tx, &beginning)).await
    }

    async fn commit_plan(&self, commit: PlanCommit) -> Result<JournalledPlan> {
        let message = Body::of(&commit.message)?;
        let response = Response {
            parts: blobs::parts_in(&commit.message, &message.bytes),
            message,
            events: Entry::all_of(&commit.events)?,
            run: commit.run,
            turn: commit.turn,
            head: commit.head,
            output: commit.output,
        };
        let run = response.run.clone();
        self.parts.write_response(&run, move |tx| commit_response(tx, &response)).await
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
    /// Results of tools in the messages.
    results: Vec<(Digest, CanonicalJson)>,
    events: Vec<Entry>,
}

/// A response on its way into the journal.
struct Response {
    run: RunId,
    turn: u32,
    head: TranscriptHead,
    message: Body,
    /// What of the message stands in its events and in the output, too.
    parts: Vec<(usize, String)>,
    output: PlanActivityOutput,
    events: Vec<Entry>,
}

/// What the journal says about a turn.
enum JournalEntry {
    Nothing,
    Response(Box<JournalledPlan>),
    GivenUp,
}

/// With the state of the run, or without if there is no such run.
fn journal_entry(sql: &Connection, run: &RunId, turn: u32) -> Result<(Option<RunState>, JournalEntry)> {
    let Some(state) = RunState::find(sql, run)? else { return Ok((None, JournalEntry::Nothing)) };
    let mut rows = sql.prepare_cached("SELECT output FROM plans WHERE run = ?1 AND turn = ?2")?;
    let mut rows = rows.query(params![state.number, turn])?;
    let entry = match rows.next()? {
        None => JournalEntry::Nothing,
        Some(row) => match blobs::open_optional(sql, row, 0)? {
            None => JournalEntry::GivenUp,
            Some(output) => JournalEntry::Response(Box::new(JournalledPlan { output })),
        },
    };
    Ok((Some(state), entry))
}

/// A turn that has not been given up.
enum Turn {
    /// Nothing is known of it yet.
    New(Box<RunState>),
    Answered(Box<JournalledPlan>),
}

fn turn_of(sql: &Connection, run: &RunId, turn: u32) -> Result<Turn> {
    match journal_entry(sql, run, turn)? {
        (_, JournalEntry::Response(plan)) => Ok(Turn::Answered(plan)),
        (_, JournalEntry::GivenUp) => Err(StoreError::TurnGivenUp { run: run.clone(), turn }),
        (None, JournalEntry::Nothing) => Err(StoreError::RunNotFound { run: run.clone() }),
        (Some(state), JournalEntry::Nothing) => Ok(Turn::New(Box::new(state))),
    }
}

fn begin_turn(tx: &mut Tx<'_>, beginning: &Beginning) -> Result<PlanBeginning> {
    let Beginning { run, workspace, owners, turn, head, messages, results, events } = beginning;
    let mut run = match turn_of(tx.sql, run, *turn)? {
        Turn::New(run) => run,
        Turn::Answered(plan) => return Ok(PlanBeginning::Journalled(plan)),
    };
    let head = transcript::append(tx.sql, &mut run, *head, messages, results)?.head;
    events::append(tx, &mut run, events, &[])?;
    run.save(tx)?;
    Ok(PlanBeginning::Ask { head, rules: approvals::rules_for(tx.sql, workspace, owners)? })
}

/// The response of a turn whose executor went silent; without one the turn is given up for good.
fn settle(tx: &Tx<'_>, run: &RunId, turn: u32) -> Result<Option<JournalledPlan>> {
    let state = match journal_entry(tx.sql, run, turn)? {
        (_, JournalEntry::Response(plan)) => return Ok(Some(*plan)),
        (state, _) => state.ok_or_else(|| StoreError::RunNotFound { run: run.clone() })?,
    };
    tx.sql
        .prepare_cached("INSERT INTO plans (run, turn) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![state.number, turn])?;
    Ok(None)
}

fn commit_response(tx: &mut Tx<'_>, response: &Response) -> Result<JournalledPlan> {
    let Response { run, turn, head, message, parts, output, events } = response;
    let mut run = match turn_of(tx.sql, run, *turn)? {
        Turn::New(run) => run,
        Turn::Answered(first) => return Ok(*first),
    };
    let appended = transcript::append(tx.sql, &mut run, *head, std::slice::from_ref(message), &[])?;
    let sources = appended.last.map(|message| message.sources(parts)).unwrap_or_default();
    events::append(tx, &mut run, events, &sources)?;
    let output = PlanActivityOutput { head: appended.head, ..output.clone() };
    let (stored, _) = splice::stored(Text::of(&output)?.as_str(), &sources);
    tx.sql
        .prepare_cached("INSERT INTO plans (run, turn, output) VALUES (?1, ?2, ?3)")?
        .execute(params![run.number, turn, stored])?;
    run.save(tx)?;
    Ok(JournalledPlan { output })
}
