//! Tools that are activities or workflows on other task queues, in any language.
//!
//! Temporal's history is their journal: a call that was scheduled is never scheduled again by a replay, and its result is
//! recorded once. The bodies cross as canonical JSON.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use temporalio_common::{
    ActivityDefinition, WorkflowDefinition,
    data_converters::RawValue,
    error::{IncomingError, TimeoutType},
};
use temporalio_workflow::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, ChildWorkflowOptions, ParentClosePolicy,
    RetryPolicy, WorkflowCancellationToken, WorkflowContext, WorkflowIdReusePolicy,
};
use windlass_core::{
    agent::TemporalRetry,
    body::Body,
    canonical::CanonicalJson,
    envelope::{CallStatus, FollowInput, LoadInput, ReceiveInput, ToolError, ToolErrorKind, ToolOutput, VERSION},
    run::TemporalOrder,
    time::Millis,
};

use crate::{
    contract::{FollowHeartbeats, Load, Receive},
    execute::{IDEMPOTENT_ATTEMPTS, ask, close_timeouts, describe},
    in_flight::CallEnd,
    patches,
    run::RunWorkflow,
    wire::{JSON_ENCODING, Wire},
};

/// How soon the follower of a lost worker goes on elsewhere.
const FOLLOWER_HEARTBEAT: Duration = Duration::from_secs(30);

type Context = WorkflowContext<RunWorkflow>;

/// An activity or a workflow type that this build does not know.
struct Named(String);

impl ActivityDefinition for Named {
    type Input = Wire<CanonicalJson>;
    type Output = RawValue;

    fn name(&self) -> &str {
        &self.0
    }
}

impl WorkflowDefinition for Named {
    type Input = Wire<CanonicalJson>;
    type Output = RawValue;

    fn name(&self) -> &str {
        &self.0
    }
}

/// Executes one call on another task queue.
pub(crate) async fn temporal(ctx: Context, order: TemporalOrder, token: WorkflowCancellationToken) -> CallEnd {
    let call = order.input.tool_call_id.clone();
    let follower = WorkflowCancellationToken::new();
    let output = match called(&ctx, &order, token, &follower).await {
        Ok(result) => received(&ctx, &order, result).await,
        Err(output) => *output,
    };
    // After the local activity of `received`: the SDK does not evict a run that waits for one with a command to send.
    follower.cancel();
    CallEnd::Tool { call, output: Box::new(output), recorded: false }
}

async fn called(
    ctx: &Context,
    order: &TemporalOrder,
    token: WorkflowCancellationToken,
    follower: &WorkflowCancellationToken,
) -> Result<CanonicalJson, Box<ToolOutput>> {
    let args = match order.input.args() {
        Some(Body::Inline(args)) => args,
        Some(Body::Stored(stored)) => {
            let input = LoadInput { v: VERSION, run_id: order.input.run_id.clone(), stored };
            let loaded = ask(ctx, Load, Wire(input), "load a call's arguments").await;
            loaded.map_err(|_| failed(ToolErrorKind::Internal, "not executed: the arguments could not be read"))?.0.text
        }
        None => CanonicalJson::null(),
    };
    let returned = match (&order.source.activity, &order.source.workflow) {
        (Some(activity), _) => activity_result(ctx, order, activity, args, (token, follower)).await?,
        (None, Some(workflow)) => workflow_result(ctx, order, workflow, args, token).await?,
        (None, None) => {
            return Err(failed(ToolErrorKind::Internal, "the tool names neither an activity nor a workflow"));
        }
    };
    text_of(returned).map_err(|encoding| {
        let message = format!("the result is encoded as {encoding:?}; return a value that becomes JSON");
        failed(ToolErrorKind::ToolFailed, message)
    })
}

async fn activity_result(
    ctx: &Context,
    order: &TemporalOrder,
    activity: &str,
    args: CanonicalJson,
    (token, follower): (WorkflowCancellationToken, &WorkflowCancellationToken),
) -> Result<RawValue, Box<ToolOutput>> {
    let source = &order.source;
    let attempts = if order.input.idempotent { IDEMPOTENT_ATTEMPTS } else { 1 };
    let options = ActivityOptions::with_close_timeouts(close_timeouts(order.timeout, order.deadline))
        .activity_id(order.input.journal_id().to_string())
        .task_queue(source.task_queue.clone())
        // Without it a queue that no worker polls would hold the run for ever.
        .schedule_to_start_timeout(order.timeout.as_duration())
        .maybe_heartbeat_timeout(source.heartbeat_timeout_ms.map(|timeout| timeout.as_duration()))
        .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
        .cancellation_token(token)
        .retry_policy(retry_policy(source.retry.as_ref(), attempts))
        .summary(order.input.tool_name.to_string())
        .build();
    let call = ctx.execute_activity(Named(activity.to_owned()), Wire(args), options);
    let ended = match source.heartbeat_timeout_ms {
        Some(timeout) if ctx.patched(patches::HEARTBEAT_PROGRESS) => {
            followed(ctx, order, timeout, follower, call).await
        }
        _ => call.await,
    };
    ended.map_err(|error| activity_failure(order, &error))
}

/// The end of a call whose heartbeats are shown meanwhile, until `token` is cancelled. Whether they can be shown has no
/// effect on the call.
async fn followed<T>(
    ctx: &Context,
    order: &TemporalOrder,
    timeout: Millis,
    token: &WorkflowCancellationToken,
    call: impl Future<Output = T>,
) -> T {
    let input = FollowInput {
        v: VERSION,
        run_id: order.input.run_id.clone(),
        tool_name: order.input.tool_name.clone(),
        call_id: order.input.journal_id(),
        heartbeat_timeout_ms: timeout,
    };
    let options = ActivityOptions::with_close_timeouts(close_timeouts(order.timeout, None))
        .heartbeat_timeout(FOLLOWER_HEARTBEAT)
        .cancellation_type(ActivityCancellationType::TryCancel)
        .cancellation_token(token.clone())
        // A worker may have no place for it at first.
        .retry_policy(
            RetryPolicy::builder()
                .initial_interval(Duration::from_secs(5))
                .maximum_interval(Duration::from_secs(60))
                .build(),
        )
        .summary(format!("progress of {}", order.input.tool_name))
        .build();
    let mut call = pin!(call);
    let mut follower = pin!(ctx.execute_activity(FollowHeartbeats, Wire(input), options));
    let mut follows = true;
    poll_fn(|cx| {
        // The call first, so that it is scheduled first and its end counts.
        if let Poll::Ready(end) = call.as_mut().poll(cx) {
            return Poll::Ready(end);
        }
        if follows && follower.as_mut().poll(cx).is_ready() {
            follows = false;
        }
        Poll::Pending
    })
    .await
}

async fn workflow_result(
    ctx: &Context,
    order: &TemporalOrder,
    workflow: &str,
    args: CanonicalJson,
    token: WorkflowCancellationToken,
) -> Result<RawValue, Box<ToolOutput>> {
    let source = &order.source;
    let options = ChildWorkflowOptions::builder()
        .workflow_id(format!("{}/{}", order.input.run_id, order.input.tool_call_id))
        .task_queue(source.task_queue.clone())
        .parent_close_policy(ParentClosePolicy::RequestCancel)
        .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
        .execution_timeout(order.deadline.unwrap_or(order.timeout).min(order.timeout).as_duration())
        .maybe_retry_policy(source.retry.as_ref().map(|retry| retry_policy(Some(retry), 1)))
        .cancellation_token(token)
        .static_summary(format!("{} for {}", order.input.tool_name, ctx.workflow_id()))
        .build();
    let cancelled = || end(CallStatus::Cancelled, ToolErrorKind::Cancelled, "the workflow was cancelled");
    match ctx.start_child_workflow(Named(workflow.to_owned()), Wire(args), options).await {
        Err(error) if error.as_cancelled().is_some() => Err(cancelled()),
        Err(error) => Err(failed(ToolErrorKind::ToolUnavailable, format!("the workflow did not start: {error}"))),
        Ok(child) => match child.result().await {
            Ok(result) => Ok(result),
            Err(error) if error.as_cancelled().is_some() => Err(cancelled()),
            Err(error) => match error.reason() {
                Some(IncomingError::Timeout(_)) => {
                    let message = format!(
                        "outcome unknown: the workflow did not end in time; parts of it may have taken effect, if a worker \
                         polls the task queue {}",
                        source.task_queue
                    );
                    Err(end(CallStatus::OutcomeUnknown, ToolErrorKind::OutcomeUnknown, message))
                }
                reason => Err(failed(ToolErrorKind::ToolFailed, typed(reason))),
            },
        },
    }
}

/// Checks the result, stores it if it is large, and cuts it if its tool has a limit.
async fn received(ctx: &Context, order: &TemporalOrder, result: CanonicalJson) -> ToolOutput {
    let input = ReceiveInput {
        v: VERSION,
        run_id: order.input.run_id.clone(),
        tool_name: order.input.tool_name.clone(),
        tool_call_id: order.input.tool_call_id.clone(),
        agent_digest: order.input.agent_digest,
        inline_limit: order.input.inline_limit,
        result,
    };
    match ask(ctx, Receive, Wire(input), "take a call's result").await {
        Ok(Wire(output)) => output,
        Err(_) => *failed(ToolErrorKind::Internal, "the call ended, but its result could not be stored"),
    }
}

fn activity_failure(order: &TemporalOrder, error: &ActivityExecutionError) -> Box<ToolOutput> {
    let unknown = |message| {
        let (status, kind) = (CallStatus::OutcomeUnknown, ToolErrorKind::OutcomeUnknown);
        if order.input.idempotent { failed(ToolErrorKind::Timeout, message) } else { end(status, kind, message) }
    };
    if let ActivityExecutionError::Cancelled(_) = error {
        return end(CallStatus::Cancelled, ToolErrorKind::Cancelled, "the call was cancelled");
    }
    let queue = &order.source.task_queue;
    match error.as_timeout().map(|timeout| timeout.timeout_type()) {
        None => failed(ToolErrorKind::ToolFailed, typed(error.reason())),
        Some(TimeoutType::ScheduleToStart) => {
            failed(ToolErrorKind::Timeout, format!("not executed: no worker polled the task queue {queue} in time"))
        }
        Some(TimeoutType::Heartbeat) => {
            unknown("outcome unknown: the activity's worker stopped sending heartbeats; it may have taken effect")
        }
        Some(_) => unknown("outcome unknown: the activity did not end in time; it may have taken effect"),
    }
}

/// What failed, after its type if it has one.
fn typed(reason: Option<&IncomingError>) -> String {
    let message = describe(reason);
    let kind = match reason {
        Some(IncomingError::Application(failure)) => failure.type_name().filter(|kind| !kind.is_empty()),
        _ => None,
    };
    match kind {
        Some(kind) => format!("{kind}: {message}"),
        None => message,
    }
}

fn retry_policy(retry: Option<&TemporalRetry>, attempts: u32) -> RetryPolicy {
    let Some(retry) = retry else { return RetryPolicy::builder().maximum_attempts(attempts).build() };
    RetryPolicy::builder()
        .initial_interval(retry.initial_interval_ms.map_or(Duration::from_secs(1), |span| span.as_duration()))
        .maybe_maximum_interval(retry.max_interval_ms.map(|span| span.as_duration()))
        .maximum_attempts(retry.max_attempts.unwrap_or(attempts))
        .non_retryable_error_types(retry.non_retryable.clone())
        .build()
}

/// The JSON of a result, or the encoding that it has instead.
fn text_of(returned: RawValue) -> Result<CanonicalJson, String> {
    let Some(payload) = returned.payloads.into_iter().next() else { return Ok(CanonicalJson::null()) };
    let encoding = payload.metadata.get("encoding").map(|name| String::from_utf8_lossy(name).into_owned());
    match encoding.as_deref() {
        Some("binary/null") | None if payload.data.is_empty() => Ok(CanonicalJson::null()),
        Some(JSON_ENCODING) => {
            let text = std::str::from_utf8(&payload.data).ok();
            text.and_then(|text| CanonicalJson::parse(text).ok()).ok_or_else(|| "damaged JSON".to_owned())
        }
        other => Err(other.unwrap_or_default().to_owned()),
    }
}

fn failed(kind: ToolErrorKind, message: impl Into<String>) -> Box<ToolOutput> {
    end(CallStatus::Failed, kind, message)
}

fn end(status: CallStatus, kind: ToolErrorKind, message: impl Into<String>) -> Box<ToolOutput> {
    Box::new(ToolOutput::new(status).with_error(ToolError::new(kind, message)))
}
