//! From a run to a task: ids, states, status messages and artifacts. Pure.

use std::collections::HashMap;

use a2a::{Artifact, Message, Part, Role, Task, TaskState, TaskStatus};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use windlass_core::{
    awaits::{AwaitKind, AwaitView},
    event::{Event, EventBody},
    message,
    row::RunRow,
    run::RunStatus,
    time::Timestamp,
};

use super::message::{MESSAGE_ID, about_await};

/// The artifact with the run's answer.
const ANSWER: &str = "answer";

/// The ids of a task: its run and the run's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) task: String,
    pub(crate) context: String,
}

impl Ids {
    /// A run without a session is a context of its own.
    pub(crate) fn of(row: &RunRow) -> Self {
        let task = row.id.to_string();
        let context = row.session.as_ref().map_or_else(|| task.clone(), ToString::to_string);
        Self { task, context }
    }

    /// The task in this status, without history.
    pub(crate) fn task(&self, status: TaskStatus, artifacts: Option<Vec<Artifact>>) -> Task {
        Task {
            id: self.task.clone(),
            context_id: self.context.clone(),
            status,
            artifacts,
            history: None,
            metadata: None,
        }
    }

    /// A message of the agent. Its id is made from the task, so that it is the same in every response.
    pub(crate) fn message(&self, id: &str, parts: Vec<Part>) -> Message {
        Message {
            message_id: format!("{}.{id}", self.task),
            context_id: Some(self.context.clone()),
            task_id: Some(self.task.clone()),
            ..Message::new(Role::Agent, parts)
        }
    }
}

pub(crate) fn time(at: Timestamp) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(i64::try_from(at.0).ok()?)
}

/// Whether a person or the calling agent can answer the await.
pub(crate) fn wants_input(item: &AwaitView) -> bool {
    item.asks_a_person()
}

/// The state of a run that has not ended.
pub(crate) fn open_state(status: RunStatus, awaits: &[AwaitView]) -> TaskState {
    match status {
        RunStatus::Queued => TaskState::Submitted,
        RunStatus::Waiting if awaits.iter().any(wants_input) => TaskState::InputRequired,
        // The run itself waits for its sub-agent.
        _ if awaits.iter().any(|item| item.child.is_some()) => TaskState::InputRequired,
        _ => TaskState::Working,
    }
}

/// The status of a run that has not ended. A task that waits for input says what for.
pub(crate) fn open_status(ids: &Ids, status: RunStatus, awaits: &[AwaitView], at: Timestamp) -> TaskStatus {
    let state = open_state(status, awaits);
    let message = (state == TaskState::InputRequired).then(|| {
        let asking: Vec<&AwaitView> = awaits.iter().filter(|item| wants_input(item)).collect();
        let id = asking.iter().map(|item| item.id.as_str()).collect::<Vec<_>>().join(".");
        ids.message(&id, asking.into_iter().flat_map(request_for_input).collect())
    });
    TaskStatus { state, message, timestamp: time(at) }
}

/// The prompt as text and, if an answer needs more than a text, the details as data.
fn request_for_input(item: &AwaitView) -> Vec<Part> {
    let lines = item.title.iter().chain(Some(&item.prompt).filter(|prompt| !prompt.is_empty()));
    let text = lines.map(String::as_str).collect::<Vec<_>>().join("\n");
    let details = match item.kind {
        AwaitKind::Questions => Some(json!({"questions": item.questions})),
        AwaitKind::Confirmation => item.calls.first().map(|call| {
            let arguments = call.args.as_ref().map(|args| args.to_value());
            json!({"toolName": call.name, "arguments": arguments, "digest": call.digest})
        }),
        AwaitKind::Input => Some(json!({"inputs": item.inputs})),
        AwaitKind::Clarification | AwaitKind::ExternalTools => None,
    };
    let parts = [Some(Part::text(text)), details.map(Part::data)].into_iter().flatten();
    parts.map(|part| Part { metadata: Some(about_await(item)), ..part }).collect()
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ending {
    pub(crate) status: TaskStatus,
    pub(crate) artifact: Option<Artifact>,
}

impl Ending {
    /// From the run's terminal event.
    pub(crate) fn of(ids: &Ids, event: &Event) -> Option<Self> {
        let (state, message, artifact) = match event.body().ok()? {
            EventBody::Result { subtype, text, structured_output, .. } if subtype == EventBody::SUCCESS => {
                let schema = structured_output.is_some_and(|output| output.schema_requested);
                (TaskState::Completed, None, Some(answer(&text, schema)))
            }
            EventBody::Result { subtype, error, error_class, .. } => {
                let code = error_class.unwrap_or_else(|| subtype.clone());
                (TaskState::Failed, Some(failure(ids, &code, error.unwrap_or(subtype))), None)
            }
            EventBody::Error { code, error, failure: own, .. } => {
                (TaskState::Failed, Some(failure(ids, &own.unwrap_or(code), error)), None)
            }
            EventBody::Cancelled { reason, .. } => {
                (TaskState::Canceled, Some(ids.message("cancelled", vec![Part::text(reason)])), None)
            }
            _ => return None,
        };
        Some(Self { status: TaskStatus { state, message, timestamp: time(event.at) }, artifact })
    }

    /// From the row alone, for a run whose terminal event cannot be read.
    pub(crate) fn without_event(row: &RunRow) -> Self {
        let state = match row.status {
            RunStatus::Completed => TaskState::Completed,
            RunStatus::Cancelled => TaskState::Canceled,
            _ => TaskState::Failed,
        };
        let at = row.closed_at.unwrap_or(row.updated_at);
        Self { status: TaskStatus { state, message: None, timestamp: time(at) }, artifact: None }
    }
}

/// Why a run failed: the sentence as text, the error code as metadata.
fn failure(ids: &Ids, code: &str, sentence: String) -> Message {
    let metadata = Some(HashMap::from([("code".to_owned(), Value::from(code))]));
    Message { metadata, ..ids.message("failed", vec![Part::text(sentence)]) }
}

/// The answer: a value if the agent has an output schema and the answer is JSON, else a text.
fn answer(text: &str, schema: bool) -> Artifact {
    let value = Some(text).filter(|_| schema).and_then(|text| serde_json::from_str(text).ok());
    let part = match value {
        Some(value) => Part::data(value).with_media_type("application/json"),
        None => Part::text(text),
    };
    artifact(vec![part])
}

pub(crate) fn artifact(parts: Vec<Part>) -> Artifact {
    Artifact {
        artifact_id: ANSWER.to_owned(),
        name: Some(ANSWER.to_owned()),
        description: None,
        parts,
        metadata: None,
        extensions: None,
    }
}

/// A message of the run's transcript. `None` for system prompts and for turns without text.
pub(crate) fn history_message(ids: &Ids, index: u64, stored: &message::Message) -> Option<Message> {
    let role = match stored.role {
        message::Role::User => Role::User,
        message::Role::Assistant => Role::Agent,
        message::Role::System => return None,
    };
    let text = stored.plain_text();
    if text.is_empty() {
        return None;
    }
    let mut shown = ids.message(&index.to_string(), vec![Part::text(text)]);
    shown.role = role;
    if let Some(sent) = stored.meta.get(MESSAGE_ID).and_then(Value::as_str) {
        sent.clone_into(&mut shown.message_id);
    }
    Some(shown)
}

#[cfg(test)]
mod tests;
