//! The event stream of a run: the log after a `seq`, then new events.
//!
//! The log is the source of truth. A reader first reads it, then gets new events from the run's tail, and reads the log
//! again when there is a gap between the two, so no event is lost or repeated, however often a reader reconnects and to
//! whichever server. A live stream never ends cleanly before its terminal event: clients would
//! reopen it at once, without a pause. A stream that cannot continue is cut off instead.

use std::sync::Arc;

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
use utoipa::ToSchema;
use windlass_store::StoreError;

use super::runs::find;
use crate::{
    app::App,
    auth::Caller,
    error::Result,
    frames,
    log::{Form, Log, Page},
    query::{Query, invalid},
    tails::{Following, Heard},
};

/// One event of a stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "written as text by `crate::frames`")]
pub(crate) struct StreamEvent {
    /// The event's `seq`, to resume after.
    id: String,
    /// Its type.
    event: String,
    /// JSON: `seq`, `type` and the fields of this type.
    data: String,
}

/// Streams the events of a run. Resume with `lastSeq` or `Last-Event-ID`: only later events are sent.
#[utoipa::path(
    get, path = "/agent-runs/{id}/stream", tag = "runs",
    params(
        ("lastSeq" = Option<u64>, Query, description = "the `seq` of the last event that was received"),
        ("Last-Event-ID" = Option<u64>, Header, description = "the same"),
        ("format" = Option<String>, Query, description = "`log` for the entries of the log, with `at`, `key` and `data`; awaits have all arguments"),
    ),
    responses((status = 200, description = "server-sent events until the run's terminal event", content_type = "text/event-stream", body = StreamEvent))
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
    let form = form(&uri)?;
    let ended = row.closed_at.is_some() && after >= row.last_seq;
    let log = Arc::new(Log::new(Arc::clone(app.ops.store()), Arc::clone(&app.models), row.id, form));
    let mut reader = Reader { app, log, tail: None, after, live: false, ended, checked: false };
    if row.closed_at.is_none() {
        reader.follow(row.last_seq);
    }
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

fn form(uri: &Uri) -> Result<Form> {
    match Query::of(uri).get("format") {
        None => Ok(Form::Frames),
        Some("log") => Ok(Form::Entries),
        Some(_) => Err(invalid("format", "must be log, or absent")),
    }
}

/// The state of one reader.
struct Reader {
    app: Arc<App>,
    log: Arc<Log>,
    /// `None` for a run that has ended.
    tail: Option<Following>,
    after: u64,
    /// Whether the log was read to its end since the tail was joined, so that the rest comes from the tail.
    live: bool,
    ended: bool,
    /// Whether the workflow of a silent run was checked.
    checked: bool,
}

/// Ends the connection without a proper end of the body, so that the client reconnects.
#[derive(Debug, thiserror::Error)]
#[error("the stream was cut off; open it again")]
struct CutOff;

impl Reader {
    /// The next frames, or a keep-alive comment. Nothing is fetched before the last frames were sent, so a slow reader
    /// costs one page of memory.
    async fn next(mut self) -> Option<(std::result::Result<Bytes, CutOff>, Self)> {
        if self.ended {
            return None;
        }
        let draining = self.app.draining.clone();
        let chunk = match draining.run_until_cancelled(self.read_or_wait()).await {
            Some(Ok(chunk)) => Ok(chunk),
            Some(Err(error)) => {
                tracing::warn!(run = %self.log.run, %error, "stream cut off");
                Err(CutOff)
            }
            None => Err(CutOff),
        };
        self.ended |= chunk.is_err();
        Some((chunk, self))
    }

    async fn read_or_wait(&mut self) -> std::result::Result<Bytes, StoreError> {
        loop {
            if !self.live {
                let page = self.log.after(self.after).await?;
                self.live = page.as_ref().is_none_or(|page| !page.full);
                if let Some(page) = page {
                    let frames = self.take(page);
                    if !frames.is_empty() {
                        return Ok(frames);
                    }
                    continue;
                }
            }
            let Some(tail) = &mut self.tail else {
                self.follow(self.after);
                continue;
            };
            match timeout(self.app.limits.keep_alive, tail.next()).await {
                Err(_) => {
                    self.check_workflow_once();
                    return Ok(Bytes::from_static(frames::keep_alive().as_bytes()));
                }
                Ok(Heard::Page(page)) if page.last <= self.after => {}
                Ok(Heard::Page(page)) if page.first == self.after + 1 => {
                    let frames = self.take(page);
                    if !frames.is_empty() {
                        return Ok(frames);
                    }
                }
                Ok(Heard::Page(_) | Heard::Missed) => self.live = false,
                Ok(Heard::Ended) => self.follow(self.after),
            }
        }
    }

    /// A run may be silent because its workflow is gone. Checked once per reader, because most are silent for other reasons.
    fn check_workflow_once(&mut self) {
        if !std::mem::replace(&mut self.checked, true) {
            let (app, run) = (Arc::clone(&self.app), self.log.run.clone());
            tokio::spawn(async move {
                if let Err(error) = app.ops.end_if_closed_externally(&run).await {
                    tracing::debug!(%run, %error, "cannot check the workflow of a silent run");
                }
            });
        }
    }

    /// Joins the run's tail. The log reaches at least to `known`, and must be read once more after this.
    fn follow(&mut self, known: u64) {
        let following = self.app.tails.follow(&self.log, known);
        self.log = Arc::clone(&following.log);
        (self.tail, self.live) = (Some(following), false);
    }

    fn take(&mut self, page: Page) -> Bytes {
        self.after = page.last;
        self.ended |= page.terminal;
        page.frames
    }
}
