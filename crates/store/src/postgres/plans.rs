//! The journal of model responses: a response that was paid for once is never asked for again.

use windlass_core::ids::RunId;

use super::{
    access::Sql,
    columns::{Columns as _, json_text},
    events, runs, transcript,
};
use crate::{JournalledPlan, PlanBegin, PlanBeginning, PlanCommit, Result, StoreError, body::Body, entry::Entry};

/// What the journal says about a turn.
enum Entered {
    Nothing,
    Response(Box<JournalledPlan>),
    GivenUp,
}

/// The run is locked first, so that nobody enters anything between this look and what follows from it.
async fn entered(sql: &mut Sql, run: &RunId, turn: u32) -> Result<Entered> {
    runs::lock(sql, run).await?;
    let row = sql
        .query_opt("SELECT output FROM plans WHERE run_id = $1 AND turn = $2", &[&run.as_str(), &i64::from(turn)])
        .await?;
    let Some(row) = row else { return Ok(Entered::Nothing) };
    Ok(match row.json_opt("output")? {
        None => Entered::GivenUp,
        Some(output) => Entered::Response(Box::new(JournalledPlan { output })),
    })
}

pub(super) async fn begin(
    sql: &mut Sql,
    begin: &PlanBegin,
    messages: &[Body],
    entries: &[Entry],
) -> Result<PlanBeginning> {
    let PlanBegin { run, turn, head, .. } = begin;
    match entered(sql, run, *turn).await? {
        Entered::Response(plan) => return Ok(PlanBeginning::Journalled(plan)),
        Entered::GivenUp => return Err(StoreError::TurnGivenUp { run: run.clone(), turn: *turn }),
        Entered::Nothing => {}
    }
    let head = transcript::append(sql, run, *head, messages).await?.head;
    events::append(sql, run, entries).await?;
    Ok(PlanBeginning::Ask(head))
}

/// The response of a turn whose executor went silent; without one the turn is given up for good.
pub(super) async fn settle(sql: &mut Sql, run: &RunId, turn: u32) -> Result<Option<JournalledPlan>> {
    if let Entered::Response(plan) = entered(sql, run, turn).await? {
        return Ok(Some(*plan));
    }
    sql.execute(
        "INSERT INTO plans (run_id, turn) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        &[&run.as_str(), &i64::from(turn)],
    )
    .await?;
    Ok(None)
}

pub(super) async fn commit(
    sql: &mut Sql,
    commit: PlanCommit,
    message: Body,
    entries: &[Entry],
) -> Result<JournalledPlan> {
    let PlanCommit { run, turn, head, mut output, .. } = commit;
    match entered(sql, &run, turn).await? {
        Entered::Response(first) => return Ok(*first),
        Entered::GivenUp => return Err(StoreError::TurnGivenUp { run, turn }),
        Entered::Nothing => {}
    }
    output.head = transcript::append(sql, &run, head, &[message]).await?.head;
    events::append(sql, &run, entries).await?;
    sql.execute(
        "INSERT INTO plans (run_id, turn, output) VALUES ($1, $2, $3)",
        &[&run.as_str(), &i64::from(turn), &json_text(&output)?],
    )
    .await?;
    Ok(JournalledPlan { output })
}
