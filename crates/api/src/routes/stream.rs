//! The event stream of a run: the log after a `seq`, then new events.
//!
//! A live stream never ends cleanly before its terminal event: clients would reopen it at once, without a pause. A stream
//! that cannot continue is cut off instead.

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
use utoipa::ToSchema;

use super::runs::find;
use crate::{
    app::App,
    auth::Caller,
    error::Result,
    frames,
    log::Form,
    query::{Query, invalid},
    reader::{CutOff, Read, Reader},
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
    let frames = stream::unfold(Reader::new(app, row, form, after), next);
    Ok(event_stream(Body::from_stream(frames)))
}

/// A response of server-sent events.
pub(crate) fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let fixed = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache, no-transform"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
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

/// The next frames, or a keep-alive comment.
async fn next(mut reader: Reader) -> Option<(std::result::Result<Bytes, CutOff>, Reader)> {
    loop {
        let chunk = match reader.next().await {
            Ok(Some(Read::Page(page))) if page.frames.is_empty() => continue,
            Ok(Some(Read::Page(page))) => Ok(page.frames),
            Ok(Some(Read::Silence)) => Ok(Bytes::from_static(frames::keep_alive().as_bytes())),
            Ok(None) => return None,
            Err(cut_off) => Err(cut_off),
        };
        return Some((chunk, reader));
    }
}
