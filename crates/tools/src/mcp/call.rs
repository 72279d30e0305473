//! One call of a tool.

use rmcp::{
    model::{CallToolRequestParams, JsonObject, RequestMetaObject, ServerResult},
    service::ServiceError,
};
use windlass_core::canonical::CanonicalJson;

use super::{
    connection::Connection,
    failure,
    in_flight::{Event, Sent},
    input::{self, Resumed},
    result,
    task::{self, Task},
};
use crate::{CallContext, ToolFailure, ToolReply, args};

/// Where a server finds the idempotency key of the call, which names its run: call ids repeat in every run.
const CALL_ID: &str = "windlass/callId";

pub(super) async fn call(
    connection: &Connection,
    tool: &str,
    context: &CallContext,
    args: &CanonicalJson,
) -> Result<ToolReply, ToolFailure> {
    if let Some(task) = Task::of(context.resumption.as_ref()) {
        return task.round(connection, context).await;
    }
    let resumed = Resumed::of(context.resumption.as_ref())?;
    let arguments: JsonObject = args::decode(args)?;
    let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    let mut meta = RequestMetaObject::default();
    meta.0.0.insert(CALL_ID.to_owned(), format!("{}/{}", context.run_id, context.call_id).into());
    params.meta = Some(meta);
    if connection.is_stateless() {
        resumed.add_to(&mut params);
    }
    let sent = connection.in_flight.send(&connection.peer, params, context.progress.clone()).await;
    let sent = sent.map_err(|error| failure::of_request(&error))?;
    reply(sent, resumed).await
}

/// Waits for the response. Questions that were answered in earlier rounds are answered again; a new one ends the round.
async fn reply(mut sent: Sent, mut resumed: Resumed) -> Result<ToolReply, ToolFailure> {
    loop {
        match sent.next().await {
            Event::Response(response) => return of_response(response, &resumed),
            Event::Question(question) => match resumed.next_answer() {
                // The server may have withdrawn its question.
                Some(given) => drop(question.answer.send(given)),
                None => {
                    let continuation = input::asked(&question.asked, resumed);
                    sent.set_aside(question);
                    return continuation.map(ToolReply::Continue);
                }
            },
        }
    }
}

fn of_response(response: Result<ServerResult, ServiceError>, resumed: &Resumed) -> Result<ToolReply, ToolFailure> {
    match response {
        Ok(ServerResult::CallToolResult(result)) => result::success(result).map(ToolReply::Done),
        Ok(ServerResult::InputRequiredResult(required)) => input::required(required).map(ToolReply::Continue),
        Ok(ServerResult::CreateTaskResult(created)) => task::created(created),
        Ok(_) => Err(failure::failed("the MCP server answered with something that is no result of a tool")),
        Err(error) => {
            let pages = match &error {
                ServiceError::McpError(error) => input::pages_required(error, resumed),
                _ => None,
            };
            pages.map_or_else(|| Err(failure::of_request(&error)), |pages| pages.map(ToolReply::Continue))
        }
    }
}
