//! A run's events as they come: the log from where the reader stands, then whatever is appended to it.
//!
//! The log is the truth. A watch only says when to read on, so nothing is lost or repeated however often a reader comes
//! back and whichever process it comes to. A live stream never ends cleanly before its terminal event: clients would
//! reopen it at once, without a pause. What cannot go on is cut off instead.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    body::Body,
    extract::{Path, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Uri, header};
use tokio::time::timeout;
use windlass_core::{
    agent::AgentDefinition,
    awaits::AwaitView,
    event::{Event, EventBody},
    ids::RunId,
};
use windlass_store::EventWatch;

use super::runs::find;
use crate::{
    app::App,
    auth::Caller,
    error::Result,
    frames::{self, RunFacts},
    query::{Query, invalid},
};

/// How many events are in memory for one reader.
const PAGE: u32 = 64;

/// Follows a run. Resume with `lastSeq` or `Last-Event-ID`; only later events are sent.
#[utoipa::path(
    get, path = "/agent-runs/{id}/stream", tag = "runs",
    params(
        ("lastSeq" = Option<u64>, Query, description = "the last event that was seen"),
        ("Last-Event-ID" = Option<u64>, Header, description = "the same"),
    ),
    responses((status = 200, description = "server-sent events until the run's terminal event", content_type = "text/event-stream", body = String))
)]
pub(crate) async fn open(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((_, id)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response> {
    let row = find(&app, &caller, &id).await?;
    let after = position(&uri, &headers)?;
    let ended = row.closed_at.is_some() && after >= row.last_seq;
    // Watch first, then read: nothing falls in between.
    let watch = app.ops.store().watch(&row.id);
    let reader = Reader { app, run: row.id, after, watch, facts: None, ended };
    let frames = stream::unfold(reader, Reader::next);
    let mut response = Response::new(Body::from_stream(frames));
    let fixed = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache, no-transform"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

fn position(uri: &Uri, headers: &HeaderMap) -> Result<u64> {
    if let Some(seq) = Query::of(uri).number("lastSeq")? {
        return Ok(seq);
    }
    let said = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?").trim());
    match said.filter(|said| !said.is_empty()) {
        None => Ok(0),
        Some(said) => said.parse().map_err(|_| invalid("Last-Event-ID", "must be the seq of an event")),
    }
}

/// Where one reader stands.
struct Reader {
    app: Arc<App>,
    run: RunId,
    after: u64,
    watch: EventWatch,
    facts: Option<RunFacts>,
    ended: bool,
}

/// The connection is dropped without a proper end, so that its reader comes back.
#[derive(Debug, thiserror::Error)]
#[error("the stream was cut off; open it again")]
struct CutOff;

impl Reader {
    /// The next frames, or a sign of life. Nothing is read from the log before the last frames are on their way, so a
    /// slow reader costs one page of memory.
    async fn next(mut self) -> Option<(std::result::Result<Bytes, CutOff>, Self)> {
        if self.ended {
            return None;
        }
        let draining = self.app.draining.clone();
        let chunk = match draining.run_until_cancelled(self.read_or_wait()).await {
            Some(Ok(chunk)) => Ok(chunk),
            Some(Err(error)) => {
                tracing::warn!(run = %self.run, %error, "a stream is cut off");
                Err(CutOff)
            }
            None => Err(CutOff),
        };
        self.ended |= chunk.is_err();
        Some((chunk, self))
    }

    async fn read_or_wait(&mut self) -> std::result::Result<Bytes, windlass_store::StoreError> {
        let keep_alive: Duration = self.app.limits.keep_alive;
        loop {
            let store = Arc::clone(self.app.ops.store());
            let events = store.events(&self.run, self.after, PAGE).await?;
            if !events.is_empty() {
                return self.frames(events).await;
            }
            if timeout(keep_alive, self.watch.changed()).await.is_err() {
                return Ok(Bytes::from_static(frames::keep_alive().as_bytes()));
            }
        }
    }

    async fn frames(&mut self, events: Vec<Event>) -> std::result::Result<Bytes, windlass_store::StoreError> {
        let mut text = String::new();
        for mut event in events {
            if frames::needs_facts(&event) && self.facts.is_none() {
                self.facts = Some(self.load_facts().await?);
            }
            self.complete(&mut event).await?;
            let none = RunFacts::default();
            text.push_str(&frames::frame(&event, self.facts.as_ref().unwrap_or(&none)).sse());
            self.after = event.seq;
            self.ended |= event.is_terminal();
        }
        Ok(Bytes::from(text))
    }

    /// What the run executes. A definition that cannot be read costs its details, not the stream.
    async fn load_facts(&self) -> std::result::Result<RunFacts, windlass_store::StoreError> {
        let store = self.app.store();
        let digest = store.run(&self.run).await?.and_then(|row| row.agent_digest);
        let body = match digest {
            Some(digest) => store.blob(&digest).await?,
            None => None,
        };
        let definition = body.and_then(|body| serde_json::from_value::<AgentDefinition>(body).ok());
        Ok(definition.as_ref().map(RunFacts::of).unwrap_or_default())
    }

    /// Arguments that were too large for the log are in the store, under the digest that the call's await shows.
    async fn complete(&self, event: &mut Event) -> std::result::Result<(), windlass_store::StoreError> {
        let Ok(EventBody::LocalToolCall { tool_use_id, args: None, await_id, .. }) = event.body() else {
            return Ok(());
        };
        let store = self.app.store();
        let before = store.events(&self.run, event.seq.saturating_sub(u64::from(PAGE)), PAGE).await?;
        let opened = before.iter().rev().find_map(|event| match event.body() {
            Ok(EventBody::AwaitOpened { item }) if item.id == await_id => Some(item),
            _ => None,
        });
        let digest = opened.and_then(|AwaitView { calls, .. }| {
            calls.into_iter().find(|call| call.tool_call_id == tool_use_id).map(|call| call.digest)
        });
        if let Some(digest) = digest
            && let Some(args) = store.blob(&digest).await?
        {
            event.data["args"] = args;
        }
        Ok(())
    }
}
