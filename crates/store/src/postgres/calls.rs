//! The journal of tool calls: who may execute a call, and what became of it.
//!
//! A row moves `released → started → finished`, or `started → unknown` when its executor went silent. Only a released
//! call can be dispatched again; an unknown one never is, because the model has been told so. The run's row is locked
//! while a call's is looked at and changed.

use async_trait::async_trait;
use windlass_core::{
    canonical::Digest,
    envelope::ToolOutput,
    ids::{CallId, RunId},
};

use super::{
    PostgresStore,
    access::Sql,
    blobs,
    columns::{Columns as _, hex, json_text},
    events,
    failure::damaged,
    runs,
};
use crate::{
    CallClaim, CallJournal, CallSettlement, FinishedCall, NewClaim, Result, StoreError,
    body::Body,
    call_row::{CallRow, State},
    entry::Entry,
};

#[async_trait]
impl CallJournal for PostgresStore {
    async fn claim_call(&self, claim: NewClaim) -> Result<CallClaim> {
        let event = Entry::of(&claim.event)?;
        let mut sql = self.parts.begin().await?;
        let outcome = try_claim(&mut sql, &claim, event).await;
        sql.end(outcome).await
    }

    async fn finish_call(&self, call: &FinishedCall) -> Result<()> {
        let (body, event) = (call.body.as_ref().map(Body::written), Entry::of(&call.event)?);
        let mut sql = self.parts.begin().await?;
        let outcome = finish(&mut sql, call, body, event).await;
        sql.end(outcome).await
    }

    async fn settle_call(&self, run: &RunId, call: &CallId, dispatch: u32) -> Result<CallSettlement> {
        let mut sql = self.parts.begin().await?;
        let outcome = settle(&mut sql, run, call, dispatch).await;
        sql.end(outcome).await
    }
}

async fn try_claim(sql: &mut Sql, claim: &NewClaim, event: Entry) -> Result<CallClaim> {
    let decided = decide(sql, claim).await?;
    if matches!(decided, CallClaim::Execute { .. }) {
        events::append(sql, &claim.run, &[event]).await?;
    }
    Ok(decided)
}

async fn decide(sql: &mut Sql, claim: &NewClaim) -> Result<CallClaim> {
    let NewClaim { run, call, dispatch, idempotent, .. } = claim;
    let (dispatch, idempotent) = (*dispatch, *idempotent);
    runs::lock(sql, run).await?;
    let Some(row) = find(sql, run, call).await? else {
        insert(sql, run, call, dispatch, "started").await?;
        return Ok(CallClaim::Execute { again: false });
    };
    let claim = row.claim(dispatch, idempotent);
    if matches!(claim, CallClaim::Execute { .. }) {
        update(sql, run, call, dispatch, "started").await?;
    }
    Ok(claim)
}

async fn settle(sql: &mut Sql, run: &RunId, call: &CallId, dispatch: u32) -> Result<CallSettlement> {
    runs::lock(sql, run).await?;
    let Some(row) = find(sql, run, call).await? else {
        insert(sql, run, call, dispatch, "released").await?;
        return Ok(CallSettlement::NeverStarted);
    };
    let (settlement, becomes) = row.settle(dispatch);
    if let Some(state) = becomes {
        update(sql, run, call, dispatch, state).await?;
    }
    Ok(settlement)
}

async fn finish(sql: &mut Sql, finished: &FinishedCall, body: Option<Body>, event: Entry) -> Result<()> {
    let FinishedCall { run, call, dispatch, output, .. } = finished;
    let unclaimed = || StoreError::CallNotClaimed { run: run.clone(), call: call.clone() };
    match runs::lock(sql, run).await {
        // A call of a run that does not exist was not claimed either.
        Err(StoreError::RunNotFound { .. }) => return Err(unclaimed()),
        locked => locked?,
    }
    let row = find(sql, run, call).await?.ok_or_else(unclaimed)?;
    let result = store_body(sql, output, body.as_ref()).await?;
    match row.state {
        State::Finished { output: first, result: first_result } => {
            // Compared as what is stored, because 1.0 comes back as 1.
            let same = json_text(&first)? == json_text(output)? && first_result == result;
            same.then_some(()).ok_or_else(|| StoreError::CallConflict { run: run.clone(), call: call.clone() })
        }
        State::Released => Err(unclaimed()),
        State::Started if row.dispatch == *dispatch => {
            sql.execute(
                "UPDATE tool_calls SET state = 'finished', output = $3, result = $4 WHERE run_id = $1 AND call_id = $2",
                &[&run.as_str(), &call.as_str(), &json_text(output)?, &result.map(hex)],
            )
            .await?;
            events::append(sql, run, &[event]).await?;
            Ok(())
        }
        State::Started if row.dispatch < *dispatch => Err(unclaimed()),
        // Too late to be the call's outcome. Kept for a person who investigates.
        State::Started | State::Unknown => {
            sql.execute(
                "UPDATE tool_calls SET late_output = coalesce(late_output, $3) WHERE run_id = $1 AND call_id = $2",
                &[&run.as_str(), &call.as_str(), &json_text(output)?],
            )
            .await?;
            Ok(())
        }
    }
}

/// Makes sure that the body an outcome refers to is in the store.
async fn store_body(sql: &mut Sql, output: &ToolOutput, body: Option<&Body>) -> Result<Option<Digest>> {
    let invalid = |problem: &str| StoreError::InvalidArgument { argument: "resultRef", problem: problem.to_owned() };
    match (body, output.result_ref()) {
        (Some(body), Some(reference)) if body.reference() != reference => {
            Err(invalid("it does not refer to the body that came with it; build it from that body"))
        }
        (Some(body), _) => {
            blobs::put(sql, &[body]).await?;
            Ok(Some(body.digest))
        }
        (None, Some(reference)) if blobs::exists(sql, reference.digest).await? => Ok(Some(reference.digest)),
        (None, Some(_)) => Err(invalid("no such body is stored; send the body along")),
        (None, None) => Ok(None),
    }
}

async fn find(sql: &mut Sql, run: &RunId, call: &CallId) -> Result<Option<CallRow>> {
    let row = sql
        .query_opt(
            "SELECT dispatch, state, output, result FROM tool_calls WHERE run_id = $1 AND call_id = $2",
            &[&run.as_str(), &call.as_str()],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let state = match row.text("state")?.as_str() {
        "started" => State::Started,
        "released" => State::Released,
        "unknown" => State::Unknown,
        // The table admits only one other word.
        _ => State::Finished { output: row.json("output")?, result: row.digest_opt("result")? },
    };
    let dispatch = u32::try_from(row.uint("dispatch")?).map_err(damaged)?;
    Ok(Some(CallRow { dispatch, state }))
}

async fn insert(sql: &mut Sql, run: &RunId, call: &CallId, dispatch: u32, state: &str) -> Result<()> {
    sql.execute(
        "INSERT INTO tool_calls (run_id, call_id, dispatch, state) VALUES ($1, $2, $3, $4)",
        &[&run.as_str(), &call.as_str(), &i64::from(dispatch), &state],
    )
    .await?;
    Ok(())
}

async fn update(sql: &mut Sql, run: &RunId, call: &CallId, dispatch: u32, state: &str) -> Result<()> {
    sql.execute(
        "UPDATE tool_calls SET dispatch = $3, state = $4 WHERE run_id = $1 AND call_id = $2",
        &[&run.as_str(), &call.as_str(), &i64::from(dispatch), &state],
    )
    .await?;
    Ok(())
}
