//! Runs that were accepted and that no workflow has opened yet.

use rusqlite::params;
use windlass_core::{
    envelope::TranscriptHead,
    ids::{RunId, SessionId},
    run::{Phase, RunStatus},
};

use super::{
    access::Tx,
    blobs,
    columns::{Hex, Json, Uint, Word},
    runs, sessions,
};
use crate::{ReservedRun, Result, RunRow, StoreError, page};

pub(super) fn reserve(tx: &Tx<'_>, new: &ReservedRun) -> Result<RunRow> {
    if let Some(row) = runs::get(tx.sql, &new.id)? {
        return new.same_as(row);
    }
    blobs::require(tx.sql, "spec", new.spec)?;
    let input_preview = page::preview(&new.input);
    if let Some(session) = &new.session {
        sessions::begun(tx, &new.workspace, session, &new.agent_id, &input_preview)?;
    }
    tx.sql
        .prepare_cached(
            "INSERT INTO runs (id, workspace, session, execution, agent_id, agent_digest, model_id, name, spec, labels,
                 metadata, status, phase, input_preview, created_at, updated_at, opening_len, new_messages, head_len,
                 head_digest, last_seq, root_agent)
             VALUES (?1, ?2, ?3, '', ?4, '', ?5, ?6, ?7, '{}', ?8, ?9, ?10, ?11, ?12, ?12, 0, 0, 0, ?13, 0, ?4)",
        )?
        .execute(params![
            new.id.as_str(),
            new.workspace.as_str(),
            new.session.as_ref().map(SessionId::as_str),
            new.agent_id.as_str(),
            new.model_id,
            new.name,
            new.spec.map(Hex),
            Json(&new.metadata),
            Word(RunStatus::Queued),
            Word(Phase::Planning),
            input_preview,
            Uint::from(tx.now),
            Hex(TranscriptHead::default().digest),
        ])?;
    runs::get(tx.sql, &new.id)?.ok_or_else(|| StoreError::RunNotFound { run: new.id.clone() })
}

pub(super) fn withdraw(tx: &Tx<'_>, run: &RunId) -> Result<bool> {
    let deleted = tx
        .sql
        .prepare_cached(
            "DELETE FROM runs WHERE id = ?1 AND execution = '' AND last_seq = 0 AND head_len = 0
                 AND NOT EXISTS (SELECT 1 FROM plans WHERE run_id = ?1)
                 AND NOT EXISTS (SELECT 1 FROM tool_calls WHERE run_id = ?1)",
        )?
        .execute([run.as_str()])?;
    Ok(deleted > 0)
}
