//! When an attempt of an activity times out.

use std::time::{Instant, SystemTime};

use temporalio_sdk::activities::ActivityContext;

/// On this process's monotonic clock, as ports take it.
pub(crate) fn of(ctx: &ActivityContext) -> Option<Instant> {
    let left = ctx.info().deadline?.duration_since(SystemTime::now()).unwrap_or_default();
    Instant::now().checked_add(left)
}
