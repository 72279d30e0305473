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
    event::{Event, EventBody},
    ids::RunId,
};
use windlass_store::{EventWatch, StoreError};

use super::{control, runs::find};
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
        ("format" = Option<String>, Query, description = "`log` for the entries of the log as they are, with `at`, `key` and `data`; awaits come with all arguments"),
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
    let form = Form::of(&uri)?;
    let ended = row.closed_at.is_some() && after >= row.last_seq;
    // Watch first, then read: nothing falls in between.
    let watch = app.ops.store().watch(&row.id);
    let reader = Reader { app, run: row.id, after, watch, form, ended };
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

/// What a reader gets of an event.
enum Form {
    /// The protocol's frame. What it needs to know about the run is read when it is needed.
    Frames(Option<RunFacts>),
    /// The entry of the log, for whoever shows a run to people.
    Log,
}

impl Form {
    fn of(uri: &Uri) -> Result<Self> {
        match Query::of(uri).get("format") {
            None => Ok(Self::Frames(None)),
            Some("log") => Ok(Self::Log),
            Some(_) => Err(invalid("format", "must be log, or left out")),
        }
    }
}

/// Where one reader stands.
struct Reader {
    app: Arc<App>,
    run: RunId,
    after: u64,
    watch: EventWatch,
    form: Form,
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

    async fn read_or_wait(&mut self) -> std::result::Result<Bytes, StoreError> {
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

    async fn frames(&mut self, events: Vec<Event>) -> std::result::Result<Bytes, StoreError> {
        let mut text = String::new();
        for event in events {
            self.after = event.seq;
            self.ended |= event.is_terminal();
            text.push_str(&self.frame(event).await?);
        }
        Ok(Bytes::from(text))
    }

    async fn frame(&mut self, event: Event) -> std::result::Result<String, StoreError> {
        match &self.form {
            Form::Log => Ok(frames::entry(&self.complete(event).await?)),
            Form::Frames(Some(facts)) => Ok(frames::frame(&event, facts).sse()),
            Form::Frames(None) if frames::needs_facts(&event) => {
                let facts = self.load_facts().await?;
                let frame = frames::frame(&event, &facts).sse();
                self.form = Form::Frames(Some(facts));
                Ok(frame)
            }
            Form::Frames(None) => Ok(frames::frame(&event, &RunFacts::default()).sse()),
        }
    }

    /// An await as whoever answers it must see it.
    async fn complete(&self, mut event: Event) -> std::result::Result<Event, StoreError> {
        if let Ok(EventBody::AwaitOpened { mut item }) = event.body() {
            control::complete(self.app.store(), &mut item).await?;
            if let Ok((_, data)) = (EventBody::AwaitOpened { item }).split() {
                event.data = data;
            }
        }
        Ok(event)
    }

    /// What the run executes. A definition that cannot be read costs its details, not the stream.
    async fn load_facts(&self) -> std::result::Result<RunFacts, StoreError> {
        let store = self.app.store();
        let digest = store.run(&self.run).await?.and_then(|row| row.agent_digest);
        let body = match digest {
            Some(digest) => store.blob(&digest).await?,
            None => None,
        };
        let definition = body.and_then(|body| serde_json::from_value::<AgentDefinition>(body).ok());
        Ok(definition.as_ref().map(RunFacts::of).unwrap_or_default())
    }
}
