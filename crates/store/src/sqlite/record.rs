//! What a workflow caused: messages, events and the run's row, in one piece.

use rusqlite::params;
use windlass_core::{
    envelope::TranscriptHead,
    ids::RunId,
    run::{Phase, RunStatus},
};

use super::{
    access::Tx,
    columns::{Uint, Word},
    conversation, events, transcript,
};
use crate::{Result, body::Body, entry::Entry};

/// A batch on its way into the store.
pub(super) struct Batch {
    pub(super) run: RunId,
    pub(super) head: TranscriptHead,
    pub(super) messages: Vec<Body>,
    pub(super) events: Vec<Entry>,
    pub(super) status: RunStatus,
    pub(super) phase: Phase,
    pub(super) closes_session_turn: bool,
}

pub(super) fn record(tx: &mut Tx<'_>, batch: &Batch) -> Result<TranscriptHead> {
    let messages = transcript::append(tx, &batch.run, batch.head, &batch.messages)?;
    let events = events::append(tx, &batch.run, &batch.events)?;
    // A batch of which everything is known is a repeat, and may come late: it must not turn the row back.
    let empty = batch.messages.is_empty() && batch.events.is_empty();
    if empty || messages.changed || events.changed {
        set_state(tx, &batch.run, (batch.status, batch.phase), events.changed)?;
    }
    if batch.closes_session_turn {
        conversation::close_turn(tx, &batch.run)?;
    }
    Ok(messages.head)
}

/// Nothing but the batch that closed a run has a say in how it ended.
pub(super) fn set_state(tx: &Tx<'_>, run: &RunId, (status, phase): (RunStatus, Phase), was_open: bool) -> Result<()> {
    tx.sql
        .prepare_cached(
            "UPDATE runs SET status = ?2, phase = ?3, updated_at = ?4 WHERE id = ?1 AND (closed_at IS NULL OR ?5)",
        )?
        .execute(params![run.as_str(), Word(status), Word(phase), Uint::from(tx.now), was_open])?;
    Ok(())
}
