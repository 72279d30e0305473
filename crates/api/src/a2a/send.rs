//! Messages: a new one starts a run, one with a task's id answers what the run asks.

use a2a::{A2AError, Message, SendMessageRequest, Task};
use serde_json::json;
use windlass_core::{
    envelope::AnswerBody,
    ids::{AwaitId, RunId},
    row::RunRow,
};

use super::{
    answer::{self, ReplyBody},
    error::{Refusal, Result, invalid},
    message::{self, MESSAGE_ID, NewTask},
    push,
    stream::{Until, Updates},
    task::Ids,
    tasks::{recent, show},
    visit::Visit,
};
use crate::{
    auth::Scope,
    error::ApiError,
    rate::Bucket,
    routes::{control, launch, runs},
    spec::parse_run,
};

/// The run that a message belongs to.
struct Sent {
    row: RunRow,
    /// The await that the message answered.
    answered: Option<AwaitId>,
}

/// Sends a message and returns the task: at once, or when the run has ended or waits for input.
pub(crate) async fn send(visit: &mut Visit, request: SendMessageRequest) -> Result<Task> {
    let settings = request.configuration.clone();
    let history = settings.as_ref().and_then(|settings| settings.history_length);
    let at_once = settings.and_then(|settings| settings.return_immediately).unwrap_or(false);
    let Sent { row, answered } = accept(visit, request).await?;
    let updates = Updates::open(visit, &row, Until::Interrupted, answered.as_ref()).await?;
    if at_once {
        return with_history(visit, &row, updates.task(), history).await;
    }
    updates.drain(visit.app.limits.blocking_send).await;
    let row = runs::find(&visit.app, &visit.caller, row.id.as_str()).await?;
    show(visit, &row, history, true).await
}

/// Sends a message and streams the task from then on.
pub(crate) async fn stream(visit: &mut Visit, request: SendMessageRequest) -> Result<Updates> {
    let history = request.configuration.as_ref().and_then(|settings| settings.history_length);
    let Sent { row, answered } = accept(visit, request).await?;
    let updates = Updates::open(visit, &row, Until::Interrupted, answered.as_ref()).await?;
    let task = with_history(visit, &row, updates.task(), history).await?;
    Ok(updates.beginning_with(task))
}

/// Streams a task that has not ended.
pub(crate) async fn subscribe(visit: &Visit, id: &str) -> Result<Updates> {
    let row = visit.task(id).await?;
    if row.status.is_terminal() {
        let message = format!("the task has ended ({}); get it instead", row.status.as_str());
        return Err(A2AError::unsupported_operation(message).into());
    }
    let updates = Updates::open(visit, &row, Until::Terminal, None).await?;
    let task = with_history(visit, &row, updates.task(), None).await?;
    Ok(updates.beginning_with(task))
}

async fn with_history(visit: &Visit, row: &RunRow, task: Task, history: Option<i32>) -> Result<Task> {
    let history = recent(visit, row, &Ids::of(row), history).await?;
    Ok(Task { history, ..task })
}

async fn accept(visit: &mut Visit, request: SendMessageRequest) -> Result<Sent> {
    let SendMessageRequest { message, configuration, .. } = request;
    // Checked before the message has an effect.
    let config = configuration.and_then(|settings| settings.task_push_notification_config);
    let config = config
        .map(|config| {
            visit.caller.require(Scope::RunsWrite)?;
            push::check(visit, config, "configuration.taskPushNotificationConfig.")
        })
        .transpose()?;
    let begins = message.task_id.as_ref().is_none_or(|task| task.is_empty());
    let sent = deliver(visit, message).await?;
    if let Some(config) = config {
        push::put(visit, &sent.row, config, begins).await?;
    }
    Ok(sent)
}

/// Starts a run with the message, or answers one.
async fn deliver(visit: &mut Visit, message: Message) -> Result<Sent> {
    match message.task_id.clone().filter(|task| !task.is_empty()) {
        Some(task) => {
            // The scope depends on what the run asks.
            visit.admit(None, Bucket::Lifecycle)?;
            let _place = visit.place()?;
            Box::pin(answer(visit, &task, &message)).await
        }
        None => {
            visit.admit(Some(Scope::RunsWrite), Bucket::Starts)?;
            let _place = visit.place()?;
            Ok(Sent { row: Box::pin(start(visit, message)).await?, answered: None })
        }
    }
}

/// Starts a run, unless this message did so before.
async fn start(visit: &Visit, message: Message) -> Result<RunRow> {
    let (app, caller) = (&visit.app, &visit.caller);
    let new = NewTask::of(caller, &visit.agent.id, &message)?;
    let id = RunId::scoped(&caller.workspace, &new.run).map_err(|problem| ApiError::internal(&problem))?;
    let body = message::run_body(&visit.agent.id, &message, &new)?;
    // Files make messages large.
    let mut accepted = app.apart(usize::MAX, move || parse_run(&body)).await?.map_err(ApiError::from)?;
    accepted.request = message::digest(&message);
    if let Some(input) = accepted.conversation.messages.last_mut() {
        input.meta.insert(MESSAGE_ID.to_owned(), json!(message.message_id));
    }
    launch::launch(app, caller, accepted, None).await?;
    Ok(runs::find(app, caller, id.as_str()).await?)
}

/// Answers what the task waits for. The run itself judges the answer.
async fn answer(visit: &Visit, task: &str, message: &Message) -> Result<Sent> {
    let (app, caller) = (&visit.app, &visit.caller);
    let row = visit.task(task).await?;
    if let Some(context) = message.context_id.as_deref().filter(|context| !context.is_empty())
        && context != Ids::of(&row).context
    {
        return Err(invalid("message.contextId", "is not the context of this task").into());
    }
    if row.status.is_terminal() {
        let message = format!(
            "the task has ended ({}) and takes no messages; send one without a task id to start another task",
            row.status.as_str()
        );
        return Err(A2AError::unsupported_operation(message).into());
    }
    let open = control::pending(app, caller, &row).await?;
    if !open.iter().any(super::task::wants_input) {
        let message = "the task is not waiting for input; wait until it does, or has ended";
        return Err(A2AError::unsupported_operation(message).into());
    }
    let reply = answer::read(&open, message).map_err(|problem| invalid("message", problem))?;
    caller.require(reply.body.scope()).map_err(Refusal::Http)?;
    let body = match reply.body {
        ReplyBody::Text(answer) => AnswerBody::Clarification { answer },
        ReplyBody::Decision { approved, digest, reason } => {
            AnswerBody::Confirmation { approved, digest, reason, grant: None }
        }
        ReplyBody::Result { call, result } => {
            let results = vec![json!({"toolCallId": call, "result": result})];
            AnswerBody::ToolResults { results: control::travelling(app, results).await? }
        }
    };
    control::reply(app, caller, row.id.as_str(), (reply.await_id.to_string(), None), body).await?;
    Ok(Sent { row, answered: Some(reply.await_id) })
}
