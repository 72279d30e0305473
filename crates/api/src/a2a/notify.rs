//! The updates of a task as push notifications. Pure.
//!
//! They are those of a stream, without the chunks of an answer that is being written: the last one has the whole answer,
//! and a request for every word would be sent otherwise.

use a2a::StreamResponse;
use serde_json::{Value, json};
use windlass_core::{event::Event, row::RunRow};

use super::{error::MEDIA_TYPE, operation::Operation, progress::Progress, task::Ids, v03};

/// The bodies of the notifications that an event causes.
type Updates = Box<dyn FnMut(&Event) -> Vec<Value> + Send>;

/// What a run's events become for a receiver, in this version of the protocol: the media type, and the updates. A
/// receiver of 0.3 gets the task.
pub fn notifications(row: &RunRow, version: &str) -> (&'static str, Updates) {
    rendered(Progress::new(Ids::of(row), row.created_at), version)
}

fn rendered(mut progress: Progress, version: &str) -> (&'static str, Updates) {
    let whole = |update: &StreamResponse| match update {
        StreamResponse::ArtifactUpdate(update) => update.last_chunk == Some(true),
        _ => true,
    };
    if version == v03::VERSION {
        let task = move |event: &Event| {
            let changed = progress.take(event).iter().any(whole);
            let task = changed.then(|| v03::result(Operation::GetTask, json!(progress.task()), true));
            task.into_iter().collect()
        };
        return ("application/json", Box::new(task));
    }
    let updates =
        move |event: &Event| progress.take(event).iter().filter(|update| whole(update)).map(|it| json!(it)).collect();
    (MEDIA_TYPE, Box::new(updates))
}

#[cfg(test)]
mod tests;
