//! Tasks on request: get, list, cancel.

use a2a::{A2AError, CancelTaskRequest, GetTaskRequest, ListTasksRequest, ListTasksResponse, Message, Task, TaskState};
use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use windlass_core::{ids::SessionId, row::RunRow, run::RunStatus, time::Timestamp};
use windlass_store::{RunFilter, RunOrder, StoreError};

use super::{
    error::{Refusal, Result, invalid},
    stream::{Until, Updates},
    task::{Ending, Ids, history_message, open_status},
    visit::Visit,
};
use crate::{
    error::ApiError,
    routes::{control, runs},
};

/// How many messages of a run are returned if the client names no number, and at most.
const HISTORY: u32 = 100;
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 100;

pub(crate) async fn get(visit: &Visit, request: &GetTaskRequest) -> Result<Task> {
    let row = visit.task(&request.id).await?;
    show(visit, &row, request.history_length, true).await
}

/// A run as a task. Its state is that of the row; what a waiting run asks comes from its workflow, or from its log.
pub(crate) async fn show(visit: &Visit, row: &RunRow, history: Option<i32>, artifacts: bool) -> Result<Task> {
    let ids = Ids::of(row);
    let mut task = if row.status.is_terminal() {
        let last =
            visit.app.store().events(&row.id, row.last_seq.saturating_sub(1), 1).await.map_err(ApiError::from)?;
        let ending = last.first().and_then(|event| Ending::of(&ids, event));
        let Ending { status, artifact } = ending.unwrap_or_else(|| Ending::without_event(row));
        ids.task(status, artifact.map(|artifact| vec![artifact]))
    } else {
        let awaits = match row.status {
            _ if !row.children.is_empty() => control::pending(&visit.app, &visit.caller, row).await?,
            RunStatus::Waiting => control::pending(&visit.app, &visit.caller, row).await?,
            _ => Vec::new(),
        };
        ids.task(open_status(&ids, row.status, &awaits, row.updated_at), None)
    };
    task.artifacts = task.artifacts.filter(|_| artifacts);
    task.history = recent(visit, row, &ids, history).await?;
    Ok(task)
}

/// The last messages of the run, without those that its session had before.
pub(crate) async fn recent(
    visit: &Visit,
    row: &RunRow,
    ids: &Ids,
    wanted: Option<i32>,
) -> Result<Option<Vec<Message>>> {
    let wanted = match wanted {
        None => HISTORY,
        Some(0) => return Ok(None),
        Some(wanted) => {
            let wanted = u32::try_from(wanted).map_err(|_| invalid("historyLength", "must not be negative"))?;
            wanted.min(HISTORY)
        }
    };
    let store = visit.app.store();
    let head = store.transcript_page(&row.id, 0, 1).await.map_err(ApiError::from)?;
    let after = head.total.saturating_sub(u64::from(HISTORY)).max(head.earlier);
    let page = store.transcript_page(&row.id, after, HISTORY).await.map_err(ApiError::from)?;
    let shown = page.messages.iter().filter_map(|(index, message)| history_message(ids, *index, message));
    let mut shown: Vec<Message> = shown.collect();
    let surplus = shown.len().saturating_sub(wanted as usize);
    shown.drain(..surplus);
    Ok((!shown.is_empty()).then_some(shown))
}

/// The agent's tasks, the most recently changed first.
pub(crate) async fn list(visit: &Visit, request: ListTasksRequest) -> Result<ListTasksResponse> {
    let size = match request.page_size {
        None => PAGE,
        Some(size) => u32::try_from(size)
            .ok()
            .filter(|size| (1..=MAX_PAGE).contains(size))
            .ok_or_else(|| invalid("pageSize", format!("must be from 1 to {MAX_PAGE}")))?,
    };
    let status = request.status.filter(|state| *state != TaskState::Unspecified);
    let filter = RunFilter {
        workspace: Some(visit.caller.workspace.clone()),
        session: request.context_id.filter(|context| !context.is_empty()).map(SessionId::new),
        agent_id: Some(visit.agent.id.clone()),
        roots: true,
        updated_since: request.status_timestamp_after.map(millis),
        order: RunOrder::Updated,
        statuses: status.as_ref().map(statuses).unwrap_or_default(),
        cursor: request.page_token.filter(|token| !token.is_empty()),
        limit: size,
        total: true,
        ..RunFilter::default()
    };
    let none = status.is_some() && filter.statuses.is_empty();
    let page = if none { None } else { Some(visit.app.store().runs(filter).await.map_err(page_token)?) };
    let (rows, next, total) =
        page.map_or((Vec::new(), None, 0), |page| (page.runs, page.next, page.total.unwrap_or_default()));
    let artifacts = request.include_artifacts.unwrap_or(false);
    let tasks = try_join_all(rows.iter().map(|row| show(visit, row, request.history_length, artifacts))).await?;
    // A run that waits may do so for input or for results of external tools.
    let wanted = |task: &Task| status.as_ref().is_none_or(|state| task.status.state == *state);
    Ok(ListTasksResponse {
        tasks: tasks.into_iter().filter(wanted).collect(),
        next_page_token: next.unwrap_or_default(),
        page_size: i32::try_from(size).unwrap_or(i32::MAX),
        total_size: i32::try_from(total).unwrap_or(i32::MAX),
    })
}

fn millis(at: DateTime<Utc>) -> Timestamp {
    Timestamp(u64::try_from(at.timestamp_millis()).unwrap_or_default())
}

fn page_token(error: StoreError) -> Refusal {
    match error {
        StoreError::InvalidArgument { argument: "cursor", .. } => {
            invalid("pageToken", "is not valid; send the nextPageToken of the previous page unchanged").into()
        }
        error => ApiError::from(error).into(),
    }
}

/// The statuses of runs that may be in this state.
fn statuses(state: &TaskState) -> Vec<RunStatus> {
    match state {
        TaskState::Submitted => vec![RunStatus::Queued],
        TaskState::Working => vec![RunStatus::Running, RunStatus::Paused, RunStatus::Waiting],
        TaskState::InputRequired => vec![RunStatus::Waiting],
        TaskState::Completed => vec![RunStatus::Completed],
        TaskState::Failed => vec![RunStatus::Failed],
        TaskState::Canceled => vec![RunStatus::Cancelled],
        TaskState::Unspecified | TaskState::Rejected | TaskState::AuthRequired => Vec::new(),
    }
}

/// Cancels a task and waits, for as long as a worker may take to reply, until it has ended.
pub(crate) async fn cancel(visit: &Visit, request: &CancelTaskRequest) -> Result<Task> {
    let row = visit.task(&request.id).await?;
    if row.status.is_terminal() {
        let message = format!("the task has ended ({}) and cannot be cancelled", row.status.as_str());
        return Err(A2AError::new(a2a::error_code::TASK_NOT_CANCELABLE, message).into());
    }
    control::stop(&visit.app, &visit.caller, &row, None).await?;
    let updates = Updates::open(visit, &row, Until::Terminal, None).await?;
    updates.drain(visit.app.limits.worker_reply_timeout).await;
    let row = runs::find(&visit.app, &visit.caller, row.id.as_str()).await?;
    show(visit, &row, None, true).await
}
