//! The journal of tool calls: who may execute a call, and what became of it.
//!
//! A row moves `released → started → finished`, or `started → unknown` when its executor went silent. Only a released
//! call can be dispatched again; an unknown one never is, because the model has been told so.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use windlass_core::{
    canonical::Digest,
    envelope::BlobRef,
    ids::{CallId, RunId},
};

use super::{
    SqliteStore,
    access::Tx,
    blobs::{self, Stored},
    columns::{Bytes, Text},
    events, splice,
    state::RunState,
};
use crate::{
    CallClaim, CallJournal, CallSettlement, FinishedCall, NewClaim, Result, StoreError,
    body::Body,
    call_row::{CallRow, State},
    entry::Entry,
};

#[async_trait]
impl CallJournal for SqliteStore {
    async fn claim_call(&self, claim: NewClaim) -> Result<CallClaim> {
        let event = Entry::of(&claim.event)?;
        let (run, idempotent) = (claim.run.clone(), claim.idempotent);
        let work = move |tx: &mut Tx<'_>| try_claim(tx, &claim, &event);
        // The call begins right after this. If that may happen only once, the claim must not be forgotten.
        let claimed = self.parts.write_relaxed_if(idempotent, work).await?;
        self.parts.response_on_disk(&run).await?;
        Ok(claimed)
    }

    async fn finish_call(&self, call: &FinishedCall) -> Result<()> {
        let outcome = Outcome {
            body: call.body.as_ref().map(Body::written),
            event: Entry::of(&call.event)?,
            run: call.run.clone(),
            call: call.call.clone(),
            dispatch: call.dispatch,
            output: Text::of(&call.output)?,
            result_ref: call.output.result_ref(),
        };
        // What happened only once is known only from here.
        self.parts.write_relaxed_if(call.idempotent, move |tx| finish(tx, &outcome)).await
    }

    async fn settle_call(&self, run: &RunId, call: &CallId, dispatch: u32) -> Result<CallSettlement> {
        let (run, call) = (run.clone(), call.clone());
        self.parts.write_relaxed(move |tx| settle(tx, &run, &call, dispatch)).await
    }
}

/// A finished call on its way into the journal.
struct Outcome {
    run: RunId,
    call: CallId,
    dispatch: u32,
    output: Text,
    result_ref: Option<BlobRef>,
    body: Option<Body>,
    event: Entry,
}

fn try_claim(tx: &mut Tx<'_>, claim: &NewClaim, event: &Entry) -> Result<CallClaim> {
    let mut run = RunState::of(tx.sql, &claim.run)?;
    let decided = decide(tx.sql, &run, claim)?;
    if matches!(decided, CallClaim::Execute { .. }) {
        events::append(tx, &mut run, std::slice::from_ref(event), &[])?;
        run.save(tx)?;
    }
    Ok(decided)
}

fn decide(sql: &Connection, run: &RunState, claim: &NewClaim) -> Result<CallClaim> {
    let NewClaim { call, dispatch, idempotent, .. } = claim;
    let (dispatch, idempotent) = (*dispatch, *idempotent);
    let Some((number, row)) = find(sql, run, call)? else {
        insert(sql, run, call, dispatch, STARTED)?;
        return Ok(CallClaim::Execute { again: false });
    };
    let claim = row.claim(dispatch, idempotent);
    if matches!(claim, CallClaim::Execute { .. }) {
        update(sql, number, dispatch, STARTED)?;
    }
    Ok(claim)
}

fn settle(tx: &Tx<'_>, run: &RunId, call: &CallId, dispatch: u32) -> Result<CallSettlement> {
    let run = RunState::of(tx.sql, run)?;
    let Some((number, row)) = find(tx.sql, &run, call)? else {
        insert(tx.sql, &run, call, dispatch, RELEASED)?;
        return Ok(CallSettlement::NeverStarted);
    };
    let (settlement, becomes) = row.settle(dispatch);
    if let Some(state) = becomes {
        update(tx.sql, number, dispatch, if state == "released" { RELEASED } else { UNKNOWN })?;
    }
    Ok(settlement)
}

fn finish(tx: &mut Tx<'_>, outcome: &Outcome) -> Result<()> {
    let Outcome { run, call, dispatch, output, .. } = outcome;
    let unclaimed = || StoreError::CallNotClaimed { run: run.clone(), call: call.clone() };
    let mut state = RunState::find(tx.sql, run)?.ok_or_else(unclaimed)?;
    let (number, row) = find(tx.sql, &state, call)?.ok_or_else(unclaimed)?;
    let result = store_body(tx.sql, outcome)?;
    match row.state {
        State::Finished { output: first, result: first_result } => {
            // Compared as what is stored, because 1.0 comes back as 1.
            let same =
                Text::of(&first)?.as_str() == output.as_str() && first_result == result.map(|(digest, _)| digest);
            same.then_some(()).ok_or_else(|| StoreError::CallConflict { run: run.clone(), call: call.clone() })
        }
        State::Released => Err(unclaimed()),
        State::Started if row.dispatch == *dispatch => {
            let (output, _) = splice::stored(output.as_str(), &[]);
            tx.sql
                .prepare_cached("UPDATE tool_calls SET state = ?2, output = ?3, result = ?4 WHERE number = ?1")?
                .execute(params![number, FINISHED, output, result.map(|(_, stored)| stored.number)])?;
            let sources = match (&outcome.body, result) {
                (Some(body), Some((_, stored))) => stored.sources(&[(0, blobs::utf8(&body.bytes)?.to_owned())]),
                _ => Vec::new(),
            };
            events::append(tx, &mut state, std::slice::from_ref(&outcome.event), &sources)?;
            state.save(tx)
        }
        State::Started if row.dispatch < *dispatch => Err(unclaimed()),
        // Too late to be the call's outcome. Kept for a person who investigates.
        State::Started | State::Unknown => {
            let (output, _) = splice::stored(output.as_str(), &[]);
            tx.sql
                .prepare_cached("UPDATE tool_calls SET late_output = coalesce(late_output, ?2) WHERE number = ?1")?
                .execute(params![number, output])?;
            Ok(())
        }
    }
}

/// Makes sure that the body an outcome refers to is in the store.
fn store_body(sql: &Connection, outcome: &Outcome) -> Result<Option<(Digest, Stored)>> {
    let invalid = |problem: &str| StoreError::InvalidArgument { argument: "resultRef", problem: problem.to_owned() };
    match (&outcome.body, outcome.result_ref) {
        (Some(body), Some(reference)) if body.reference() != reference => {
            Err(invalid("it does not refer to the body that came with it; build it from that body"))
        }
        (Some(body), _) => Ok(Some((body.digest, blobs::put(sql, body, &[])?))),
        (None, Some(reference)) => match blobs::find(sql, reference.digest)? {
            Some(stored) => Ok(Some((reference.digest, stored))),
            None => Err(invalid("no such body is stored; send the body along")),
        },
        (None, None) => Ok(None),
    }
}

/// The states of a row.
const STARTED: u8 = 1;
const FINISHED: u8 = 2;
const RELEASED: u8 = 3;
const UNKNOWN: u8 = 4;

/// The call's number and what the journal knows of it.
fn find(sql: &Connection, run: &RunState, call: &CallId) -> Result<Option<(i64, CallRow)>> {
    let mut rows = sql.prepare_cached(
        "SELECT tool_calls.number, dispatch, state, output, digest
         FROM tool_calls LEFT JOIN blobs ON blobs.number = result WHERE run = ?1 AND call_id = ?2",
    )?;
    let mut rows = rows.query(params![run.number, call.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let state = match row.get(2)? {
        STARTED => State::Started,
        RELEASED => State::Released,
        UNKNOWN => State::Unknown,
        // The table admits only one other number.
        _ => State::Finished {
            output: blobs::open_json(sql, row, 3)?,
            result: row.get::<_, Option<Bytes>>(4)?.map(|Bytes(digest)| digest),
        },
    };
    Ok(Some((row.get(0)?, CallRow { dispatch: row.get(1)?, state })))
}

fn insert(sql: &Connection, run: &RunState, call: &CallId, dispatch: u32, state: u8) -> Result<()> {
    sql.prepare_cached("INSERT INTO tool_calls (run, call_id, dispatch, state) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![run.number, call.as_str(), dispatch, state])?;
    Ok(())
}

fn update(sql: &Connection, number: i64, dispatch: u32, state: u8) -> Result<()> {
    sql.prepare_cached("UPDATE tool_calls SET dispatch = ?2, state = ?3 WHERE number = ?1")?
        .execute(params![number, dispatch, state])?;
    Ok(())
}
