//! What a workflow caused: messages, events and the run's row, in one piece.

use windlass_core::{
    envelope::TranscriptHead,
    ids::RunId,
    run::{Phase, RunStatus},
};

use super::{access::Sql, columns::millis, conversation, events, transcript};
use crate::{RecordBatch, Result, body::Body, entry::Entry};

pub(super) async fn record(
    sql: &mut Sql,
    batch: &RecordBatch,
    messages: &[Body],
    entries: &[Entry],
) -> Result<TranscriptHead> {
    let appended = transcript::append(sql, &batch.run, batch.head, messages).await?;
    let events = events::append(sql, &batch.run, entries).await?;
    // A batch of which everything is known is a repeat, and may come late: it must not turn the row back.
    let empty = messages.is_empty() && entries.is_empty();
    if empty || appended.changed || events.changed {
        set_state(sql, &batch.run, (batch.status, batch.phase), events.changed).await?;
    }
    if batch.closes_session_turn {
        conversation::close_turn(sql, &batch.run).await?;
    }
    Ok(appended.head)
}

/// Nothing but the batch that closed a run has a say in how it ended.
pub(super) async fn set_state(
    sql: &mut Sql,
    run: &RunId,
    (status, phase): (RunStatus, Phase),
    was_open: bool,
) -> Result<()> {
    let now = millis(sql.now);
    sql.execute(
        "UPDATE runs SET status = $2, phase = $3, updated_at = $4 WHERE id = $1 AND (closed_at IS NULL OR $5)",
        &[&run.as_str(), &status.as_str(), &phase.as_str(), &now, &was_open],
    )
    .await?;
    Ok(())
}
