//! Runs and sessions in responses.

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use windlass_core::{
    envelope::RunStatusView,
    ids::RunId,
    message::{FallbackMark, Message, Role},
    run::RunStatus,
    time::Timestamp,
};
use windlass_store::{RunRow, SessionRow, SessionStatus};

use crate::{frames, models::Catalogue, spec::ATTACHMENTS};

/// A time in RFC 3339.
pub(super) fn time(at: Timestamp) -> String {
    at.rfc3339()
}

/// The protocol's status of a run.
pub(super) fn status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Queued => "queued",
        RunStatus::Running | RunStatus::Waiting | RunStatus::Paused => "running",
        RunStatus::Completed => "succeeded",
        RunStatus::Failed => "failed",
        RunStatus::Cancelled => "cancelled",
    }
}

/// Windlass's status of a run.
pub(super) fn state(word: &str) -> Option<RunStatus> {
    serde_json::from_value(Value::from(word)).ok()
}

/// The statuses that a filter selects; it may be one of the protocol's or one of Windlass's.
pub(super) fn statuses(word: &str) -> Option<Vec<RunStatus>> {
    Some(match word {
        "queued" => vec![RunStatus::Queued],
        "running" => vec![RunStatus::Running, RunStatus::Waiting, RunStatus::Paused],
        "waiting" => vec![RunStatus::Waiting],
        "paused" => vec![RunStatus::Paused],
        "succeeded" | "completed" => vec![RunStatus::Completed],
        "failed" => vec![RunStatus::Failed],
        "cancelled" => vec![RunStatus::Cancelled],
        _ => return None,
    })
}

/// A run in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunItem {
    id: String,
    run_id: String,
    session_id: Option<String>,
    /// `queued`, `running`, `succeeded`, `failed` or `cancelled`.
    status: &'static str,
    /// More detailed than the status: also `waiting` and `paused`.
    state: &'static str,
    spec_name: Option<String>,
    agent_id: String,
    model_id: String,
    parent_run_id: Option<String>,
    input_preview: String,
    output_preview: Option<String>,
    error: Option<String>,
    /// The limit that made the run answer early, for example `time_budget`; null otherwise.
    finalized: Option<String>,
    /// Null until the run has ended, like `turns`.
    tokens: Option<Value>,
    turns: Option<u32>,
    duration_ms: Option<u64>,
    tool_call_count: Option<u32>,
    metadata: Value,
    created_at: String,
    completed_at: Option<String>,
    last_seq: u64,
    /// The run's row in the store; only with `row=1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<Value>,
}

impl RunItem {
    /// Adds the row.
    #[must_use]
    pub(super) fn with(mut self, row: &RunRow) -> Self {
        self.row = Some(json!(row));
        self
    }

    pub(super) fn of(row: &RunRow) -> Self {
        let ending = row.ending.clone().unwrap_or_default();
        let usage = ending.usage.and_then(|usage| serde_json::to_value(usage).ok());
        Self {
            id: row.id.to_string(),
            run_id: row.id.to_string(),
            session_id: row.session.as_ref().map(ToString::to_string),
            status: status(row.status),
            state: row.status.as_str(),
            spec_name: row.name.clone(),
            agent_id: row.agent_id.to_string(),
            model_id: row.model_id.clone(),
            parent_run_id: row.parent.as_ref().map(RunId::to_string),
            input_preview: row.input_preview.clone(),
            output_preview: ending.output_preview,
            error: ending.error,
            finalized: ending.finalized,
            tokens: usage.map(|usage| frames::tokens(&usage)),
            turns: ending.turns,
            duration_ms: row.closed_at.map(|closed| closed.since(row.created_at).0),
            tool_call_count: ending.tool_calls,
            metadata: json!(row.metadata),
            created_at: time(row.created_at),
            completed_at: row.closed_at.map(time),
            last_seq: row.last_seq,
            row: None,
        }
    }
}

/// One run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunSnapshot {
    #[serde(flatten)]
    item: RunItem,
    /// The answer, or the part of it before the run failed.
    final_text: Option<String>,
    /// On failed runs `{errorClass, finishReason}`.
    failure_reason: Option<Value>,
    /// The spec as it was sent.
    spec: Option<Value>,
    /// Null until the run has ended.
    model: Option<Value>,
    /// The live status from the run's workflow, if a worker responds within 2 s; only with `live=1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<Value>,
}

impl RunSnapshot {
    pub(super) fn of(row: &RunRow, final_text: Option<String>, spec: Option<Value>, models: &Catalogue) -> Self {
        let ended = row.status.is_terminal();
        let ending = row.ending.clone().unwrap_or_default();
        let failed = row.status == RunStatus::Failed;
        Self {
            item: RunItem::of(row),
            final_text,
            failure_reason: failed
                .then(|| json!({"errorClass": ending.error_class, "finishReason": ending.finish_reason})),
            spec,
            model: ended.then(|| models.model_ref(ending.model.as_deref().unwrap_or(&row.model_id), None)),
            live: None,
        }
    }

    /// Adds the row and the live status.
    #[must_use]
    pub(super) fn with(mut self, row: Option<&RunRow>, live: Option<&RunStatusView>) -> Self {
        if let Some(row) = row {
            self.item = self.item.with(row);
        }
        self.live = live.map(|live| json!(live));
        self
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionItem {
    session_id: String,
    creation_date: String,
    last_interaction_date: String,
    summary: String,
    metadata: Value,
    status: &'static str,
}

impl SessionItem {
    pub(super) fn of(row: &SessionRow) -> Self {
        Self {
            session_id: row.id.to_string(),
            creation_date: time(row.created_at),
            last_interaction_date: time(row.last_used_at),
            summary: row.summary.clone(),
            metadata: json!(row.metadata),
            status: session_status(row),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
    id: String,
    session_id: String,
    name: Option<String>,
    status: &'static str,
    created_at: String,
    last_used_at: String,
    ended_at: Option<String>,
    agent_spec: Value,
    messages: Vec<Value>,
    metadata: Value,
}

impl Session {
    pub(super) fn of(row: &SessionRow, spec: Option<Value>, messages: &[Message]) -> Self {
        Self {
            id: row.id.to_string(),
            session_id: row.id.to_string(),
            name: row.name.clone(),
            status: session_status(row),
            created_at: time(row.created_at),
            last_used_at: time(row.last_used_at),
            ended_at: row.ended_at.map(time),
            agent_spec: with_active_model(spec.unwrap_or_else(|| json!({})), messages.last()),
            messages: messages
                .iter()
                .map(|message| with_files(json!({"role": role(message), "content": message.plain_text()}), message))
                .collect(),
            metadata: json!(row.metadata),
        }
    }
}

/// The model that the session has changed to, if it fell back to another one.
fn with_active_model(mut spec: Value, last: Option<&Message>) -> Value {
    if let (Some(fields), Some(mark)) = (spec.as_object_mut(), last.and_then(FallbackMark::of)) {
        fields.insert("activeModelId".to_owned(), mark.model.into());
    }
    spec
}

/// A message of a session's history, with its position as `seq`.
pub(super) fn history_event(seq: u64, message: &Message) -> Value {
    let event = match message.role {
        Role::User => json!({"seq": seq, "type": "user_message", "text": message.plain_text()}),
        Role::Assistant => json!({"seq": seq, "type": "assistant_message", "text": message.plain_text()}),
        Role::System => json!({"seq": seq, "type": "message", "role": "system", "text": message.plain_text()}),
    };
    with_files(event, message)
}

fn with_files(mut shown: Value, message: &Message) -> Value {
    if let Some(attachments) = message.meta.get(ATTACHMENTS) {
        shown[ATTACHMENTS] = attachments.clone();
    }
    shown
}

fn role(message: &Message) -> &'static str {
    match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

fn session_status(row: &SessionRow) -> &'static str {
    match row.status() {
        SessionStatus::Active => "active",
        SessionStatus::Ended => "ended",
    }
}
