//! Updates of a task as server-sent events.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use serde_json::Value;

use super::stream::{Update, Updates};
use crate::{frames, reader::CutOff, routes::stream::event_stream};

/// A stream whose binding writes each update as one value; the flag is whether it is the last one.
pub(crate) fn response(updates: Updates, written: impl Fn(Value, bool) -> Value + Send + Sync + 'static) -> Response {
    let events = stream::unfold((updates, written), async |(mut updates, written)| {
        let chunk = match updates.next().await {
            Ok(None) => return None,
            Ok(Some(Update::KeepAlive)) => Ok(Bytes::from_static(frames::keep_alive().as_bytes())),
            // An update is built from JSON types only, so it always serialises.
            Ok(Some(Update::Event(event, last))) => {
                let event = serde_json::to_value(event).unwrap_or_default();
                Ok(Bytes::from(format!("data: {}\n\n", written(event, last))))
            }
            Err(CutOff) => Err(CutOff),
        };
        Some((chunk, (updates, written)))
    });
    event_stream(Body::from_stream(events))
}
