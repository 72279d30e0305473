//! Heartbeats of an activity. The server's response tells that the activity was cancelled.

use std::{future::Future, time::Duration};

use temporalio_sdk::activities::ActivityContext;
use tokio_util::sync::CancellationToken;

/// Runs `work` with a heartbeat. Its token fires when the activity is cancelled; `work` then returns its own result.
pub(crate) async fn with_heartbeat<T, F: Future<Output = T>>(
    ctx: &ActivityContext,
    work: impl FnOnce(CancellationToken) -> F,
) -> T {
    let token = CancellationToken::new();
    let beats = ctx.info().heartbeat_timeout.map(|timeout| timeout / 3).unwrap_or(Duration::from_secs(5));
    let beats = beats.max(Duration::from_millis(50));
    // Not at once: a heartbeat in progress delays the report of an activity that has ended in the meantime.
    let mut ticker = tokio::time::interval_at(tokio::time::Instant::now() + beats, beats);
    let mut work = std::pin::pin!(work(token.clone()));
    loop {
        tokio::select! {
            result = &mut work => return result,
            () = ctx.cancelled(), if !token.is_cancelled() => token.cancel(),
            _ = ticker.tick() => {
                // A heartbeat that cannot be encoded must not interrupt the work.
                ctx.record_heartbeat(()).await.ok();
            }
        }
    }
}
