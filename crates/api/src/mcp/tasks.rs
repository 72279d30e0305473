//! The extension `io.modelcontextprotocol/tasks`: a task is a run, and its id is the run's.
//!
//! Every request looks the run up in the store, so tasks survive restarts and any server can be asked. A server keeps a
//! run as long as its retention says, which is not known here, so a task has no `ttlMs`.

use serde_json::{Map, Value, json};
use windlass_core::{ids::RunId, run::RunStatus};
use windlass_store::RunRow;

use super::{
    answering,
    call::cancel as cancel_run,
    content::Answer,
    elicit,
    era::{Client, Era},
    message::{Failure, Request},
    outcome::{self, Ending},
    reply::{Context, Reply},
    tools,
};
use crate::{error::Result, routes::runs};

/// How often a client should look.
const POLL_INTERVAL_MS: u64 = 1_000;

/// The result of a call that has become a task.
pub(super) async fn created(context: &Context, run: &RunId) -> Result<Value> {
    let row = runs::find(&context.app, &context.caller, run.as_str()).await?;
    let mut task = base(&row, "working");
    task["resultType"] = json!("task");
    Ok(task)
}

fn base(row: &RunRow, status: &str) -> Value {
    json!({
        "taskId": row.id,
        "status": status,
        "createdAt": row.created_at.rfc3339(),
        "lastUpdatedAt": row.updated_at.rfc3339(),
        "ttlMs": null,
        "pollIntervalMs": POLL_INTERVAL_MS,
    })
}

/// The task of a request.
async fn find(context: &Context, request: &Request) -> std::result::Result<RunRow, Failure> {
    if let Era::Modern(client) = context.era {
        client.require_tasks()?;
    }
    let id = request.required_text("taskId")?;
    of_id(context, id).await
}

pub(super) async fn of_id(context: &Context, id: &str) -> std::result::Result<RunRow, Failure> {
    runs::find(&context.app, &context.caller, id).await.map_err(|error| match error.code {
        "not_found" => Failure::params("taskId: this workspace has no such task"),
        _ => error.into(),
    })
}

/// `tasks/get`.
pub(super) async fn get(context: &Context, request: &Request) -> std::result::Result<Reply, Failure> {
    let row = find(context, request).await?;
    Ok(Reply::Result(detailed(context, &row).await?))
}

/// `tasks/update`: answers what the task asks. Responses to what is not asked any more are ignored.
pub(super) async fn update(context: &Context, request: &Request) -> std::result::Result<Reply, Failure> {
    let row = find(context, request).await?;
    let responses = &request.params["inputResponses"];
    if !responses.is_object() {
        return Err(Failure::params("inputResponses: is required, an object"));
    }
    if !row.status.is_terminal() {
        answering::give(&context.app, &context.caller, &row.id, |_| true, responses).await?;
    }
    Ok(Reply::Result(json!({})))
}

/// `tasks/cancel`.
pub(super) async fn cancel(context: &Context, request: &Request) -> std::result::Result<Reply, Failure> {
    let row = find(context, request).await?;
    cancel_run(context, &row.id, "cancelled by the MCP client").await?;
    Ok(Reply::Result(json!({})))
}

/// The task with what its status has: the requests to the client, or the result.
pub(super) async fn detailed(context: &Context, row: &RunRow) -> Result<Value> {
    if row.status.is_terminal() {
        return ended(context, row).await;
    }
    if row.status != RunStatus::Waiting {
        return Ok(working(row, (row.status == RunStatus::Paused).then_some("The run is paused.")));
    }
    let items = answering::pending(&context.app, &context.caller, &row.id).await?;
    let able = matches!(context.era, Era::Modern(Client { elicitation: true, .. }));
    let forms: Map<String, Value> =
        items.iter().filter(|_| able).filter_map(|item| Some((elicit::key(item), elicit::request(item)?))).collect();
    if forms.is_empty() {
        let waits = items.first().map(|item| format!("The run waits: {}", elicit::message(item)));
        return Ok(working(row, waits.as_deref()));
    }
    let mut task = base(row, "input_required");
    task["inputRequests"] = Value::Object(forms);
    Ok(task)
}

fn working(row: &RunRow, message: Option<&str>) -> Value {
    let mut task = base(row, "working");
    if let Some(message) = message {
        task["statusMessage"] = json!(message);
    }
    task
}

/// A run that failed is a task that is complete: its result says that the call failed.
async fn ended(context: &Context, row: &RunRow) -> Result<Value> {
    let store = context.app.store();
    let last = store.events(&row.id, row.last_seq.saturating_sub(1), 1).await?;
    let ending = last.last().map_or_else(
        || Ending::Failed { code: "unknown".to_owned(), message: "the log of the run has no end".to_owned() },
        Ending::of,
    );
    if let Ending::Cancelled { reason } = &ending {
        let mut task = base(row, "cancelled");
        task["statusMessage"] = json!(reason);
        return Ok(task);
    }
    let answer = Answer::of(store, &row.id).await?;
    let agent = context.app.agents.iter().find(|agent| agent.id == row.agent_id);
    let structured = agent.is_some_and(|agent| tools::object_schema(agent).is_some());
    let mut task = base(row, "completed");
    task["result"] = outcome::of_run(&row.id, &ending, &answer, structured);
    Ok(task)
}
