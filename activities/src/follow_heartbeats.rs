//! `windlass.follow_heartbeats`: shows the heartbeats of an activity on another task queue as progress of its call.
//!
//! Heartbeats are not in the history, so the server is asked for them while the call is running. The workflow cancels this
//! activity when the call ends.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use windlass_core::{
    envelope::{FollowInput, FollowOutput, VERSION},
    event::{EventBody, NewEvent},
    heartbeat::Heartbeat,
    ids::RunId,
};
use windlass_store::StoreError;

use crate::{RunActivities, failures, heartbeat::with_heartbeat, progress::clip};

/// Calls that one worker follows at the same time. Each takes one of its places for activities, of which runs need the most.
const FOLLOWED: usize = 16;
/// How often the server is asked at most, and at least.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// Reads heartbeats from the server.
#[async_trait]
pub trait Heartbeats: Send + Sync + 'static {
    /// The last heartbeat of an activity of this run; `None` if it has sent none, or is not running.
    async fn last(&self, run: &RunId, activity: &str) -> Option<Heartbeat>;
}

/// What following calls needs beside the ports.
pub(crate) struct Following {
    pub(crate) heartbeats: Option<Arc<dyn Heartbeats>>,
    places: Semaphore,
}

impl Default for Following {
    fn default() -> Self {
        Self { heartbeats: None, places: Semaphore::new(FOLLOWED) }
    }
}

impl RunActivities {
    pub(crate) async fn follow_call(
        &self,
        ctx: ActivityContext,
        input: FollowInput,
    ) -> Result<FollowOutput, ActivityError> {
        // Another worker, or this one later, may have a place.
        let busy = || failures::transient("busy", "too many calls are followed here; it is tried again");
        let (Some(heartbeats), Ok(_place)) = (&self.following.heartbeats, self.following.places.try_acquire()) else {
            return Err(busy());
        };
        with_heartbeat(&ctx, |cancel| self.follow(&**heartbeats, &input, cancel)).await
    }

    async fn follow(
        &self,
        heartbeats: &dyn Heartbeats,
        input: &FollowInput,
        cancel: CancellationToken,
    ) -> Result<FollowOutput, ActivityError> {
        let pause = (input.heartbeat_timeout_ms.as_duration() / 2).clamp(PAUSES.0, PAUSES.1);
        let mut shown = None;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = cancel.cancelled() => return Ok(FollowOutput { v: VERSION }),
                () = self.draining.cancelled() => return Err(failures::transient("draining", "the worker shuts down")),
            }
            let Some(heartbeat) = heartbeats.last(&input.run_id, input.call_id.as_str()).await else { continue };
            let Some(progress) = heartbeat.progress().filter(|progress| Some(progress) != shown.as_ref()) else {
                continue;
            };
            let body = EventBody::ToolProgress {
                tool_use_id: input.call_id.clone(),
                name: input.tool_name.clone(),
                attempt: heartbeat.attempt,
                message: progress.message.clone().map(clip),
                progress: progress.progress.filter(|number| number.is_finite()),
                total: progress.total.filter(|number| number.is_finite()),
            };
            let key = format!("call/{}/heartbeat/{}/{}", input.call_id, heartbeat.attempt, heartbeat.at.0);
            match self.store.append_events(&input.run_id, vec![NewEvent::new(key, body)]).await {
                Err(StoreError::RunClosed { .. }) => return Ok(FollowOutput { v: VERSION }),
                // Progress is lost while the store is unavailable, but not the call.
                Err(_) => {}
                Ok(_) => shown = Some(progress),
            }
        }
    }
}
