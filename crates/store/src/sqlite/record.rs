//! What a workflow caused: messages, events and the run's row, in one piece.

use windlass_core::{
    canonical::{CanonicalJson, Digest},
    envelope::TranscriptHead,
    ids::RunId,
    run::{Phase, RunStatus},
};

use super::{access::Tx, conversation, events, state::RunState, transcript};
use crate::{Result, body::Body, entry::Entry};

/// A batch on its way into the store.
pub(super) struct Batch {
    pub(super) run: RunId,
    pub(super) head: TranscriptHead,
    pub(super) messages: Vec<Body>,
    /// Results of tools in the messages.
    pub(super) results: Vec<(Digest, CanonicalJson)>,
    pub(super) events: Vec<Entry>,
    pub(super) status: RunStatus,
    pub(super) phase: Phase,
    pub(super) closes_session_turn: bool,
}

pub(super) fn record(tx: &mut Tx<'_>, batch: &Batch) -> Result<TranscriptHead> {
    let mut run = RunState::of(tx.sql, &batch.run)?;
    let messages = transcript::append(tx.sql, &mut run, batch.head, &batch.messages, &batch.results)?;
    let logged = events::append(tx, &mut run, &batch.events, &[])?;
    // A batch of which everything is known is a repeat, and may come late: it must not turn the row back. And nothing but
    // the batch that closed a run has a say in how it ended.
    let empty = batch.messages.is_empty() && batch.events.is_empty();
    if (empty || messages.changed || logged) && (run.closed_at.is_none() || logged) {
        run.shows(batch.status, batch.phase);
    }
    run.save(tx)?;
    if batch.closes_session_turn {
        conversation::close_turn(tx, &batch.run)?;
    }
    Ok(messages.head)
}
