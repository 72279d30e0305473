//! Where a store's times come from.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use windlass_core::time::Timestamp;

pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The system's clock.
pub fn system_clock() -> Clock {
    Arc::new(system_time)
}

fn system_time() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}
