//! The size limit of what the next plan is given. An envelope has a size limit, and a run must not fail because users sent
//! too much.

use serde::Serialize;

use super::Run;
use crate::canonical;

/// Half of the size limit of an envelope. The other half is for the rest of a plan's input.
const MAX_PENDING_BYTES: usize = 1024 * 1024;

impl Run {
    /// Whether this fits into the next plan, beside the results and messages that are already waiting for it.
    pub(super) fn fits_next_plan<T: Serialize + ?Sized>(&self, more: &T) -> bool {
        let results: usize = self.state.batch_results().map(size).sum();
        size(&self.state.pending_messages) + results + size(more) <= MAX_PENDING_BYTES
    }

    /// Whether this is within the inline limit. Such a body is always accepted.
    pub(super) fn fits_inline<T: Serialize + ?Sized>(&self, body: &T) -> bool {
        size(body) as u64 <= self.tuning.inline_limit()
    }
}

fn size<T: Serialize + ?Sized>(value: &T) -> usize {
    // JSON types only: they always serialise.
    canonical::text_of(value).map_or(0, |text| text.len())
}
