//! Runs that were accepted and that no workflow has opened yet.

use windlass_core::{
    envelope::TranscriptHead,
    ids::{RunId, SessionId},
    run::{Phase, RunStatus},
};

use super::{
    access::Sql,
    blobs,
    columns::{hex, json_text, label_tags, millis},
    runs, sessions,
};
use crate::{ReservedRun, Result, RunRow, StoreError, page};

pub(super) async fn reserve(sql: &mut Sql, new: &ReservedRun) -> Result<RunRow> {
    if let Some(row) = runs::get(sql, &new.id).await? {
        return new.same_as(row);
    }
    blobs::require(sql, "spec", new.spec).await?;
    let input_preview = page::preview(&new.input);
    if let Some(session) = &new.session {
        sessions::begun(sql, &new.workspace, session, &new.agent_id, &input_preview).await?;
    }
    let now = millis(sql.now);
    sql.execute(
        "INSERT INTO runs (id, workspace, session, agent_id, model_id, name, spec, labels, metadata, tags, status, phase,
             input_preview, created_at, updated_at, opening_len, new_messages, head_len, head_digest, last_seq, root_agent)
         VALUES ($1, $2, $3, $4, $5, $6, $7, '{}', $8, $9, $10, $11, $12, $13, $13, 0, 0, 0, $14, 0, $4)",
        &[
            &new.id.as_str(),
            &new.workspace.as_str(),
            &new.session.as_ref().map(SessionId::as_str),
            &new.agent_id.as_str(),
            &new.model_id,
            &new.name,
            &new.spec.map(hex),
            &json_text(&new.metadata)?,
            &label_tags(&new.metadata)?,
            &RunStatus::Queued.as_str(),
            &Phase::Planning.as_str(),
            &input_preview,
            &now,
            &hex(TranscriptHead::default().digest),
        ],
    )
    .await?;
    runs::get(sql, &new.id).await?.ok_or_else(|| StoreError::RunNotFound { run: new.id.clone() })
}

pub(super) async fn withdraw(sql: &mut Sql, run: &RunId) -> Result<bool> {
    let deleted = sql
        .execute(
            "DELETE FROM runs WHERE id = $1 AND execution IS NULL AND last_seq = 0 AND head_len = 0
                 AND NOT EXISTS (SELECT 1 FROM plans WHERE run_id = $1)
                 AND NOT EXISTS (SELECT 1 FROM tool_calls WHERE run_id = $1)",
            &[&run.as_str()],
        )
        .await?;
    Ok(deleted > 0)
}
