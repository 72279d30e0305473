//! The journal of model responses: a response that was paid for once is never asked for again.

use async_trait::async_trait;
use windlass_core::ids::RunId;

use super::{
    PostgresStore,
    access::Sql,
    approvals,
    columns::{Columns as _, json_text},
    events, runs, transcript,
};
use crate::{
    JournalledPlan, ModelJournal, PlanBegin, PlanBeginning, PlanCommit, Result, StoreError, body::Body, entry::Entry,
    rows::owners_of,
};

#[async_trait]
impl ModelJournal for PostgresStore {
    async fn begin_plan(&self, begin: PlanBegin) -> Result<PlanBeginning> {
        let (messages, entries) = (Body::all_of(&begin.messages)?, Entry::all_of(&begin.events)?);
        let mut sql = self.parts.begin().await?;
        let outcome = begin_turn(&mut sql, &begin, &messages, &entries).await;
        sql.end(outcome).await
    }

    async fn commit_plan(&self, commit: PlanCommit) -> Result<JournalledPlan> {
        let (message, entries) = (Body::of(&commit.message)?, Entry::all_of(&commit.events)?);
        let mut sql = self.parts.begin().await?;
        let outcome = commit_response(&mut sql, commit, message, &entries).await;
        sql.end(outcome).await
    }

    async fn settle_plan(&self, run: &RunId, turn: u32) -> Result<Option<JournalledPlan>> {
        let mut sql = self.parts.begin().await?;
        let outcome = settle(&mut sql, run, turn).await;
        sql.end(outcome).await
    }
}

/// What the journal says about a turn.
enum JournalEntry {
    Nothing {
        /// Whether the store has approval rules of runs or sessions.
        rules: bool,
    },
    Response(Box<JournalledPlan>),
    GivenUp,
}

/// Locks the run first, so that the entry does not change before the transaction ends.
async fn journal_entry(sql: &mut Sql, run: &RunId, turn: u32) -> Result<JournalEntry> {
    runs::lock(sql, run).await?;
    // One statement also says whether there are approval rules at all, which is rare.
    let row = sql
        .query_one(
            "SELECT (plans.run_id IS NOT NULL)::int::bigint AS known, output,
                 (EXISTS (SELECT 1 FROM approval_rules))::int::bigint AS rules
             FROM (SELECT $1::text AS run, $2::bigint AS turn) AS asked
             LEFT JOIN plans ON run_id = asked.run AND plans.turn = asked.turn",
            &[&run.as_str(), &i64::from(turn)],
        )
        .await?;
    if row.uint("known")? == 0 {
        return Ok(JournalEntry::Nothing { rules: row.uint("rules")? == 1 });
    }
    Ok(match row.json_opt("output")? {
        None => JournalEntry::GivenUp,
        Some(output) => JournalEntry::Response(Box::new(JournalledPlan { output })),
    })
}

async fn begin_turn(sql: &mut Sql, begin: &PlanBegin, messages: &[Body], entries: &[Entry]) -> Result<PlanBeginning> {
    let PlanBegin { run, turn, head, .. } = begin;
    let rules = match journal_entry(sql, run, *turn).await? {
        JournalEntry::Response(plan) => return Ok(PlanBeginning::Journalled(plan)),
        JournalEntry::GivenUp => return Err(StoreError::TurnGivenUp { run: run.clone(), turn: *turn }),
        JournalEntry::Nothing { rules: false } => Vec::new(),
        JournalEntry::Nothing { rules: true } => {
            approvals::rules_for(sql, &begin.workspace, &owners_of(run, begin.session.as_ref())).await?
        }
    };
    let head = transcript::append(sql, run, *head, messages).await?.head;
    events::append(sql, run, entries).await?;
    Ok(PlanBeginning::Ask { head, rules })
}

/// The response of a turn whose executor went silent; without one the turn is given up for good.
async fn settle(sql: &mut Sql, run: &RunId, turn: u32) -> Result<Option<JournalledPlan>> {
    if let JournalEntry::Response(plan) = journal_entry(sql, run, turn).await? {
        return Ok(Some(*plan));
    }
    sql.execute(
        "INSERT INTO plans (run_id, turn) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        &[&run.as_str(), &i64::from(turn)],
    )
    .await?;
    Ok(None)
}

async fn commit_response(
    sql: &mut Sql,
    commit: PlanCommit,
    message: Body,
    entries: &[Entry],
) -> Result<JournalledPlan> {
    let PlanCommit { run, turn, head, mut output, .. } = commit;
    match journal_entry(sql, &run, turn).await? {
        JournalEntry::Response(first) => return Ok(*first),
        JournalEntry::GivenUp => return Err(StoreError::TurnGivenUp { run, turn }),
        JournalEntry::Nothing { .. } => {}
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
