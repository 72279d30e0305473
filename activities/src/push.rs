//! `windlass.push` and `windlass.end_push`: one notification to one receiver.
//!
//! The log is read from its beginning, because an update depends on what came before it. The position among the updates is
//! in the workflow: what a receiver accepted is not sent again, unless the worker is lost in between.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    envelope::{EndPushInput, EndPushOutput, PushCursor, PushInput, PushOutput, VERSION},
    event::Event,
    row::RunRow,
};
use windlass_store::{ID_HEADER, PushConfigRow, PushTarget, SIGNATURE_HEADER, StoreError, TIMESTAMP_HEADER};
use windlass_tools::{Post, PostFailure};

use crate::{RunActivities, failures, heartbeat::with_heartbeat};

/// How long one activity waits for an update. After that the workflow looks again from time to time.
const WAIT: Duration = Duration::from_secs(60);
/// Activities that wait at the same time, and that send at the same time. Each takes one of the worker's places for
/// activities, of which runs need the most. An activity that has no place to wait does not wait.
const WAITING: usize = 16;
const SENDING: usize = 16;
/// When an activity that has no place to send tries again.
const BUSY: Duration = Duration::from_secs(2);
/// How long a receiver may take to answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Events that are read at once.
const PAGE: u32 = 500;

/// The updates of a run, event by event.
pub type Updates = Box<dyn FnMut(&Event) -> Vec<Value> + Send>;

/// How updates of a run are written in a version of a protocol: their media type, and the updates.
pub type Renderer = fn(&RunRow, &str) -> (&'static str, Updates);

/// What sending notifications needs beside the ports.
#[derive(Debug)]
pub(crate) struct Pushing {
    pub(crate) renderer: Option<Renderer>,
    waiting: Semaphore,
    sending: Semaphore,
}

impl Default for Pushing {
    fn default() -> Self {
        Self { renderer: None, waiting: Semaphore::new(WAITING), sending: Semaphore::new(SENDING) }
    }
}

/// An update that is to be sent.
struct Due {
    cursor: PushCursor,
    body: Value,
    /// It is the last one of the run.
    last: bool,
}

/// What the log says.
enum Found {
    Due(Due),
    /// All updates so far were sent.
    Nothing,
    /// All updates of the run were sent.
    Ended,
}

impl RunActivities {
    pub(crate) async fn push_update(
        &self,
        ctx: ActivityContext,
        input: PushInput,
    ) -> Result<PushOutput, ActivityError> {
        self.check_owner(&input.run_id, input.installation.as_ref()).await?;
        with_heartbeat(&ctx, |cancel| self.next_update(input, cancel)).await
    }

    async fn next_update(&self, input: PushInput, cancel: CancellationToken) -> Result<PushOutput, ActivityError> {
        let output = |cursor, ended| Ok(PushOutput { v: VERSION, cursor, ended });
        let store = |error: StoreError| failures::store(&error);
        let config = self.store.push_config(&input.run_id, &input.config_id).await.map_err(store)?;
        let row = self.store.run(&input.run_id).await.map_err(store)?;
        let (Some(config), Some(row)) = (config, row) else { return output(input.cursor, true) };
        let renderer = self.pushing.renderer.ok_or_else(|| {
            failures::transient("push_failed", "this worker does not send notifications; start another one")
        })?;
        let (media_type, mut updates) = renderer(&row, &config.version);
        // Watched before the log is read, so that no event is missed.
        let mut watch = self.store.watch(&input.run_id);
        let place = self.pushing.waiting.try_acquire();
        let until = Instant::now() + if place.is_ok() { WAIT } else { Duration::ZERO };
        let mut read = 0;
        loop {
            match self.due_update(&input, &mut updates, &mut read).await? {
                Found::Due(due) => {
                    drop(place);
                    let due_at = PushInput { cursor: due.cursor, ..input };
                    let sent = self.send(&due_at, media_type, &due.body).await?;
                    return output(due.cursor.next(), due.last || !sent);
                }
                Found::Ended => return output(input.cursor, true),
                Found::Nothing => {}
            }
            tokio::select! {
                () = watch.changed() => {}
                () = tokio::time::sleep_until(until) => return output(input.cursor, false),
                () = cancel.cancelled() => return output(input.cursor, false),
                () = self.draining.cancelled() => return output(input.cursor, false),
            }
        }
    }

    /// Looks for the next update in the log after `read`.
    async fn due_update(
        &self,
        input: &PushInput,
        updates: &mut Updates,
        read: &mut u64,
    ) -> Result<Found, ActivityError> {
        loop {
            let page = self.store.events(&input.run_id, *read, PAGE).await;
            let page = page.map_err(|error| failures::store(&error))?;
            for event in &page {
                *read = event.seq;
                let mut bodies = updates(event);
                let count = u32::try_from(bodies.len()).unwrap_or(u32::MAX);
                if let Some(cursor) = input.cursor.due(event.seq, count) {
                    let last = event.is_terminal() && cursor.next().due(event.seq, count).is_none();
                    return Ok(Found::Due(Due { cursor, body: bodies.swap_remove(cursor.sent as usize), last }));
                }
                if event.is_terminal() {
                    return Ok(Found::Ended);
                }
            }
            if page.len() < PAGE as usize {
                return Ok(Found::Nothing);
            }
        }
    }

    /// Sends one update. Returns false if the config was deleted in the meantime.
    async fn send(&self, input: &PushInput, media_type: &str, body: &Value) -> Result<bool, ActivityError> {
        let config = self.store.push_config(&input.run_id, &input.config_id).await;
        let Some(config) = config.map_err(|error| failures::store(&error))? else { return Ok(false) };
        let (target, signed) = self.prepare(&config, input, body).await.map_err(|problem| {
            // Another worker may have the keys, and a config that is being replaced has another secret in a moment.
            failures::transient("push_failed", problem)
        })?;
        let Signed { id, timestamp, signature, body } = signed;
        let mut headers = vec![
            ("content-type", media_type.to_owned()),
            (ID_HEADER, id),
            (TIMESTAMP_HEADER, timestamp.to_string()),
            (SIGNATURE_HEADER, signature),
        ];
        headers.extend(target.token.map(|token| ("x-a2a-notification-token", token)));
        if let (Some(scheme), Some(credentials)) = (&target.scheme, &target.credentials) {
            headers.push(("authorization", format!("{scheme} {credentials}")));
        }
        let _place = self.pushing.sending.try_acquire().map_err(|_| {
            let message = "this worker is sending as many notifications as it may".to_owned();
            failures::push(&PostFailure { message, retryable: true, retry_after: Some(BUSY) })
        })?;
        let post = Post { url: &target.url, headers, body, timeout: TIMEOUT };
        self.tools.egress().post(post).await.map_err(|failure| failures::push(&failure))?;
        Ok(true)
    }

    async fn prepare(
        &self,
        config: &PushConfigRow,
        input: &PushInput,
        body: &Value,
    ) -> Result<(PushTarget, Signed), String> {
        let coded = |error: StoreError| format!("{}: {error}", error.code());
        let vault = self.vault.as_ref();
        let vault = vault.ok_or("this worker has no key for secrets; start it with --secrets-key-file")?;
        let target = vault.push_target(config).await.map_err(coded)?;
        let key = vault.signing_key().await.map_err(coded)?;
        let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (id, body) = (input.notification_id(), body.to_string().into_bytes());
        let signature = key.sign(&id, timestamp, &body);
        Ok((target, Signed { id, timestamp, signature, body }))
    }

    pub(crate) async fn end_config(&self, input: EndPushInput) -> Result<EndPushOutput, ActivityError> {
        let EndPushInput { run_id, config_id, error, installation, .. } = input;
        self.check_owner(&run_id, installation.as_ref()).await?;
        if let Some(error) = &error {
            tracing::warn!(run = %run_id, config = %config_id, %error, "push notifications are given up");
        }
        let ended = self.store.end_push_config(&run_id, &config_id, error.as_deref()).await;
        ended.map_err(|error| failures::store(&error))?;
        Ok(EndPushOutput { v: VERSION })
    }
}

/// A notification, ready to be sent.
struct Signed {
    id: String,
    timestamp: u64,
    signature: String,
    body: Vec<u8>,
}
