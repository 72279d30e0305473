//! The journal of tool calls: who may execute a call, and what became of it.
//!
//! A row moves `released → started → finished`, or `started → unknown` when its executor went silent. Only a released
//! call can be dispatched again; an unknown one never is, because the model has been told so.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};
use windlass_core::{
    canonical::Digest,
    envelope::BlobRef,
    ids::{CallId, RunId},
};

use super::{
    SqliteStore,
    access::Tx,
    blobs,
    columns::{Hex, Json, Text},
    events, runs,
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
        let idempotent = claim.idempotent;
        let work = move |tx: &mut Tx<'_>| try_claim(tx, &claim, &event);
        // The call begins right after this. If that may happen only once, the claim must not be forgotten.
        self.parts.write_relaxed_if(idempotent, work).await
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
    let decided = decide(tx, claim)?;
    if matches!(decided, CallClaim::Execute { .. }) {
        events::append(tx, &claim.run, std::slice::from_ref(event))?;
    }
    Ok(decided)
}

fn decide(tx: &Tx<'_>, claim: &NewClaim) -> Result<CallClaim> {
    let NewClaim { run, call, dispatch, idempotent, .. } = claim;
    let (dispatch, idempotent) = (*dispatch, *idempotent);
    let Some(row) = find(tx.sql, run, call)? else {
        insert(tx.sql, run, call, dispatch, "started")?;
        return Ok(CallClaim::Execute { again: false });
    };
    let claim = row.claim(dispatch, idempotent);
    if matches!(claim, CallClaim::Execute { .. }) {
        update(tx.sql, run, call, dispatch, "started")?;
    }
    Ok(claim)
}

fn settle(tx: &Tx<'_>, run: &RunId, call: &CallId, dispatch: u32) -> Result<CallSettlement> {
    let Some(row) = find(tx.sql, run, call)? else {
        insert(tx.sql, run, call, dispatch, "released")?;
        return Ok(CallSettlement::NeverStarted);
    };
    let (settlement, becomes) = row.settle(dispatch);
    if let Some(state) = becomes {
        update(tx.sql, run, call, dispatch, state)?;
    }
    Ok(settlement)
}

fn finish(tx: &mut Tx<'_>, outcome: &Outcome) -> Result<()> {
    let Outcome { run, call, dispatch, output, .. } = outcome;
    let unclaimed = || StoreError::CallNotClaimed { run: run.clone(), call: call.clone() };
    let row = find(tx.sql, run, call)?.ok_or_else(unclaimed)?;
    let result = store_body(tx.sql, outcome)?;
    match row.state {
        State::Finished { output: first, result: first_result } => {
            // Compared as what is stored, because 1.0 comes back as 1.
            let same = Text::of(&first)? == *output && first_result == result;
            same.then_some(()).ok_or_else(|| StoreError::CallConflict { run: run.clone(), call: call.clone() })
        }
        State::Released => Err(unclaimed()),
        State::Started if row.dispatch == *dispatch => {
            tx.sql
                .prepare_cached(
                    "UPDATE tool_calls SET state = 'finished', output = ?3, result = ?4
                     WHERE run_id = ?1 AND call_id = ?2",
                )?
                .execute(params![run.as_str(), call.as_str(), output, result.map(Hex)])?;
            events::append(tx, run, std::slice::from_ref(&outcome.event))?;
            Ok(())
        }
        State::Started if row.dispatch < *dispatch => Err(unclaimed()),
        // Too late to be the call's outcome. Kept for a person who investigates.
        State::Started | State::Unknown => {
            tx.sql
                .prepare_cached(
                    "UPDATE tool_calls SET late_output = coalesce(late_output, ?3) WHERE run_id = ?1 AND call_id = ?2",
                )?
                .execute(params![run.as_str(), call.as_str(), output])?;
            Ok(())
        }
    }
}

/// Makes sure that the body an outcome refers to is in the store.
fn store_body(sql: &Connection, outcome: &Outcome) -> Result<Option<Digest>> {
    let invalid = |problem: &str| StoreError::InvalidArgument { argument: "resultRef", problem: problem.to_owned() };
    match (&outcome.body, outcome.result_ref) {
        (Some(body), Some(reference)) if body.reference() != reference => {
            Err(invalid("it does not refer to the body that came with it; build it from that body"))
        }
        (Some(body), _) => {
            blobs::put(sql, body)?;
            Ok(Some(body.digest))
        }
        (None, Some(reference)) if blobs::exists(sql, reference.digest)? => Ok(Some(reference.digest)),
        (None, Some(_)) => Err(invalid("no such body is stored; send the body along")),
        (None, None) => Ok(None),
    }
}

fn find(sql: &Connection, run: &RunId, call: &CallId) -> Result<Option<CallRow>> {
    let row = sql
        .prepare_cached("SELECT dispatch, state, output, result FROM tool_calls WHERE run_id = ?1 AND call_id = ?2")?
        .query_row([run.as_str(), call.as_str()], |row| {
            let state = match row.get_ref(1)?.as_str()? {
                "started" => State::Started,
                "released" => State::Released,
                "unknown" => State::Unknown,
                // The table admits only one other word.
                _ => State::Finished {
                    output: row.get::<_, Json<_>>(2)?.0,
                    result: row.get::<_, Option<Hex>>(3)?.map(|Hex(digest)| digest),
                },
            };
            Ok(CallRow { dispatch: row.get(0)?, state })
        })
        .optional()?;
    Ok(row)
}

fn insert(sql: &Connection, run: &RunId, call: &CallId, dispatch: u32, state: &str) -> Result<()> {
    runs::require(sql, run)?;
    sql.prepare_cached("INSERT INTO tool_calls (run_id, call_id, dispatch, state) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![run.as_str(), call.as_str(), dispatch, state])?;
    Ok(())
}

fn update(sql: &Connection, run: &RunId, call: &CallId, dispatch: u32, state: &str) -> Result<()> {
    sql.prepare_cached("UPDATE tool_calls SET dispatch = ?3, state = ?4 WHERE run_id = ?1 AND call_id = ?2")?
        .execute(params![run.as_str(), call.as_str(), dispatch, state])?;
    Ok(())
}
