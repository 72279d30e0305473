//! How much may wait for the next plan. An envelope has a size limit, and a run must not die of what people send it.

use serde::Serialize;

use super::Run;
use crate::canonical;

/// Half of what an envelope may be; the rest is for everything else a plan is given.
const MAX_WAITING: usize = 1024 * 1024;

impl Run {
    /// Whether this may go along with the next plan, beside the results and words that already wait for it.
    pub(super) fn has_room_for<T: Serialize + ?Sized>(&self, more: &T) -> bool {
        let results: usize = self.state.batch_results().map(size).sum();
        size(&self.state.said) + results + size(more) <= MAX_WAITING
    }

    /// Whether this is so small that it travels in any case.
    pub(super) fn is_small<T: Serialize + ?Sized>(&self, body: &T) -> bool {
        size(body) as u64 <= self.tuning.inline_limit()
    }
}

fn size<T: Serialize + ?Sized>(value: &T) -> usize {
    // JSON types only: they always serialise.
    canonical::text_of(value).map_or(0, |text| text.len())
}
