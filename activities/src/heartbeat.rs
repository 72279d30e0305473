//! Keeping an activity alive in the server's eyes, and hearing from it that the activity is no longer wanted.

use std::{future::Future, time::Duration};

use temporalio_sdk::activities::ActivityContext;
use tokio_util::sync::CancellationToken;

/// Runs `work` with a heartbeat. Its token fires when the activity is cancelled; `work` then ends in its own words.
pub(crate) async fn with_heartbeat<T, F: Future<Output = T>>(
    ctx: &ActivityContext,
    work: impl FnOnce(CancellationToken) -> F,
) -> T {
    let token = CancellationToken::new();
    let beats = ctx.info().heartbeat_timeout.map(|timeout| timeout / 3).unwrap_or(Duration::from_secs(5));
    let beats = beats.max(Duration::from_millis(50));
    // Not at once: a beat under way holds back the report of an activity that has ended meanwhile.
    let mut ticker = tokio::time::interval_at(tokio::time::Instant::now() + beats, beats);
    let mut work = std::pin::pin!(work(token.clone()));
    loop {
        tokio::select! {
            result = &mut work => return result,
            () = ctx.cancelled(), if !token.is_cancelled() => token.cancel(),
            _ = ticker.tick() => {
                // A heartbeat that cannot be encoded is not worth the work it would interrupt.
                ctx.record_heartbeat(()).await.ok();
            }
        }
    }
}
