//! Which bodies a sweep may delete.
//!
//! A body that a row refers to stays. So does one that nothing but a workflow's history may refer to: it was stored by
//! `put_blob`, and the run that did so, or for which it was done, may still be open. Runs are opened at most
//! [`HEAD_START`] after what they are started with was stored, so such a body is free once it is older than that before
//! the oldest open run.

use windlass_core::time::{Millis, Timestamp};

/// How long before its row a run's first bodies may be stored: a start may have to wait for a worker.
const HEAD_START: Millis = Millis(24 * 60 * 60 * 1000);

/// The precision of the time at which a body was last put; less than the head start.
pub(crate) const PUT_GRAIN: Millis = Millis(60 * 60 * 1000);

/// Such bodies that one sweep looks at.
pub(crate) const PUT_BODIES: u32 = 1000;

/// Bodies that were put before this are kept only by rows that refer to them.
pub(crate) fn horizon(before: Timestamp, oldest_open_run: Option<Timestamp>) -> Timestamp {
    let begun = oldest_open_run.map(|created| Timestamp(created.0.saturating_sub(HEAD_START.0)));
    begun.map_or(before, |begun| begun.min(before))
}
