//! Follows a run by its log: progress, questions, the end.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
};

use serde_json::{Value, json};
use windlass_core::{
    awaits::AwaitView,
    event::{Event, EventBody},
    ids::{AwaitId, RunId},
};
use windlass_ops::complete;
use windlass_store::{EventWatch, Store, StoreError};

use super::{message::notification, outcome::Ending};

/// How many events are read at once.
const PAGE: u32 = 64;

/// What a follower sees next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Seen {
    Event(Event),
    /// The run waits for these, and the log has nothing more to read. Reported once until another await is opened.
    Waiting(Vec<AwaitView>),
    Ended(Ending),
}

pub(super) struct Follower {
    store: Arc<dyn Store>,
    pub(super) run: RunId,
    watch: EventWatch,
    after: u64,
    unseen: VecDeque<Event>,
    open: BTreeMap<AwaitId, AwaitView>,
    /// Awaits whose answers were accepted; the log may not say so yet.
    answered: HashSet<AwaitId>,
    reported: bool,
}

impl Follower {
    pub(super) fn new(store: Arc<dyn Store>, run: RunId, answered: HashSet<AwaitId>) -> Self {
        let watch = store.watch(&run);
        Self { store, run, watch, after: 0, unseen: VecDeque::new(), open: BTreeMap::new(), answered, reported: false }
    }

    pub(super) async fn next(&mut self) -> Result<Seen, StoreError> {
        loop {
            if let Some(event) = self.unseen.pop_front() {
                if event.is_terminal() {
                    return Ok(Seen::Ended(Ending::of(&event)));
                }
                self.note(&event);
                return Ok(Seen::Event(event));
            }
            let events = self.store.events(&self.run, self.after, PAGE).await?;
            if let Some(last) = events.last() {
                self.after = last.seq;
                self.unseen.extend(events);
                continue;
            }
            if !self.reported && !self.open.is_empty() {
                let items = self.awaits().await?;
                self.reported = true;
                return Ok(Seen::Waiting(items));
            }
            self.watch.changed().await;
        }
    }

    fn note(&mut self, event: &Event) {
        match event.body() {
            Ok(EventBody::AwaitOpened { item } | EventBody::ChildAwaitOpened { item })
                if !self.answered.contains(&item.id) =>
            {
                self.open.insert(item.id.clone(), item);
                self.reported = false;
            }
            Ok(EventBody::AwaitClosed { await_id, .. } | EventBody::ChildAwaitClosed { await_id, .. }) => {
                self.open.remove(&await_id);
            }
            _ => {}
        }
    }

    async fn awaits(&self) -> Result<Vec<AwaitView>, StoreError> {
        let mut items: Vec<AwaitView> = self.open.values().cloned().collect();
        for item in &mut items {
            complete(&*self.store, item).await?;
        }
        Ok(items)
    }
}

/// The progress notification of an event; `None` for events that are no progress. `seq` only grows, as progress must.
pub(super) fn progress(token: &Value, event: &Event) -> Option<Value> {
    let message = match event.body().ok()? {
        EventBody::Started { .. } => "The run has started.".to_owned(),
        EventBody::AssistantMessage { turn, tool_calls, .. } if !tool_calls.is_empty() => {
            let names: Vec<&str> = tool_calls.iter().map(|call| call.name.as_str()).collect();
            format!("Turn {}: the model calls {}.", turn + 1, names.join(", "))
        }
        EventBody::AssistantMessage { turn, .. } => format!("Turn {}: the model has answered.", turn + 1),
        EventBody::ToolCall { name, .. } | EventBody::LocalToolCall { name, .. } => format!("{name} runs."),
        EventBody::ToolProgress { name, message, progress, total, .. } => {
            reported(name.as_str(), message, progress, total)
        }
        EventBody::ToolResult { name, ok: true, .. } => format!("{name} is done."),
        EventBody::ToolResult { name, .. } => format!("{name} has failed."),
        EventBody::ChildRunLinked { child_agent_id, .. } => {
            format!("The agent {child_agent_id} works on a part of it.")
        }
        EventBody::ModelFallback { model, .. } => format!("The model {model} goes on."),
        EventBody::AwaitOpened { item } | EventBody::ChildAwaitOpened { item } => {
            format!("The run waits: {}", item.prompt)
        }
        EventBody::Paused { .. } => "The run is paused.".to_owned(),
        EventBody::Resumed { .. } => "The run goes on.".to_owned(),
        _ => return None,
    };
    let params = json!({"progressToken": token, "progress": event.seq, "message": message});
    Some(notification("notifications/progress", &params))
}

/// What a tool says about how far it is.
fn reported(name: &str, message: Option<String>, progress: Option<f64>, total: Option<f64>) -> String {
    let amount = match (progress, total) {
        (Some(progress), Some(total)) => format!(" {progress}/{total}"),
        (Some(progress), None) => format!(" {progress}"),
        _ => String::new(),
    };
    format!("{name}:{amount} {}", message.unwrap_or_default()).trim_end().to_owned()
}
