//! Executes the core's orders: activities, local activities and child workflows with their options.

use std::time::Duration;

use temporalio_common::{
    ActivityDefinition,
    error::{IncomingError, TimeoutType},
};
use temporalio_workflow::{
    ActivityCancellationType, ActivityCloseTimeouts, ActivityExecutionError, ActivityOptions, ChildWorkflowOptions,
    LocalActivityOptions, ParentClosePolicy, RetryPolicy, WorkflowCancellationToken, WorkflowContext,
    WorkflowIdReusePolicy,
};
use windlass_core::{
    envelope::{
        ModelFailureFacts, OpenInput, OpenOutput, PlanActivityOutput, RecordInput, RunInput, SettleInput, SettleOutput,
        SettlePlanInput, SettlePlanOutput, VERSION,
    },
    failure::{RunFailure, RunFailureKind},
    run::{CallLoss, ChildOrder, ChildReport, LossVerdict, PlanFailure, PlanOrder, ToolOrder, after_loss},
    time::Millis,
};

use crate::{
    attributes,
    contract::{Open, Plan, Record, Settle, SettlePlan, Tool},
    drive::timestamp,
    in_flight::CallEnd,
    run::{RunWorkflow, Stage},
    wire::Wire,
};

type Context = WorkflowContext<RunWorkflow>;

/// How often an idempotent tool is tried.
pub(crate) const IDEMPOTENT_ATTEMPTS: u32 = 5;
/// While the store is unavailable the activity is retried; the run does not fail.
const STORE_PATIENCE: Duration = Duration::from_secs(30 * 24 * 3600);

pub(crate) async fn open(ctx: &Context, run: RunInput) -> Result<OpenOutput, RunFailure> {
    let execution = ctx.info().first_execution_run_id().to_owned();
    let input = OpenInput { v: VERSION, run, execution };
    let opened = ask(ctx, Open, Wire(input), "open the run").await;
    opened
        .map(|Wire(opened)| opened)
        .map_err(|error| RunFailure::new(RunFailureKind::OpenFailed, reason(&error).message))
}

/// Writes the workflow's messages and events. A normal activity, not a local one: its input is in history before it runs, so what
/// it wrote stays true when the workflow task that asked for it is lost and something else comes first the next time.
pub(crate) async fn record(ctx: &Context, input: RecordInput) -> Result<(), RunFailure> {
    let written = input.outbox.events.iter().map(|event| event.body.kind()).collect::<Vec<_>>().join(", ");
    // It takes a moment, or its worker is gone; a repeat that overtakes it is harmless.
    let timeout = tuning(ctx, |tuning| tuning.heartbeat_timeout());
    let options = ActivityOptions::with_start_to_close_timeout(timeout.as_duration())
        .retry_policy(patient())
        // It goes on while the run is being cancelled.
        .cancellation_token(WorkflowCancellationToken::new())
        .summary(format!("record {written}"))
        .build();
    let recorded = ctx.execute_activity(Record, Wire(input), options).await;
    let recorded = recorded.map_err(|error| RunFailure::new(RunFailureKind::StoreRefused, reason(&error).message))?;
    ctx.state_mut(|workflow| {
        if let Stage::Open(run) = &mut workflow.stage {
            run.recorded(recorded.0.head);
        }
    });
    Ok(())
}

pub(crate) async fn plan(
    ctx: &Context,
    order: PlanOrder,
    token: WorkflowCancellationToken,
) -> Result<PlanActivityOutput, PlanFailure> {
    let (interval, heartbeat) = tuning(ctx, |tuning| (tuning.plan_retry_interval(), tuning.heartbeat_timeout()));
    let retry = RetryPolicy::builder()
        .initial_interval(interval.as_duration())
        .backoff_coefficient(2.0)
        .maximum_interval(Duration::from_secs(60))
        .maximum_attempts(order.attempts)
        .build();
    let options = ActivityOptions::with_close_timeouts(close_timeouts(order.timeout, order.deadline))
        .heartbeat_timeout(heartbeat.as_duration())
        .cancellation_token(token)
        .retry_policy(retry)
        .summary(order.summary)
        .build();
    let (run_id, turn) = (order.input.run_id.clone(), order.input.turn);
    let error = match ctx.execute_activity(Plan, Wire(order.input), options).await {
        Ok(Wire(output)) => return Ok(output),
        Err(error) => error,
    };
    // The activity's end is not the last word: its answer may be in the journal, and if not, it must not come later.
    let settled = SettlePlanInput { v: VERSION, run_id, turn };
    let settled = ask(ctx, SettlePlan, Wire(settled), "settle a lost turn").await;
    if let Ok(Wire(SettlePlanOutput { output: Some(output), .. })) = settled {
        return Ok(output);
    }
    let Reason { mut message, error_class, retryable, timed_out } = reason(&error);
    if let Some(timeout) = error.as_timeout() {
        message = timeout_message(timeout.timeout_type(), order.timeout, order.deadline, heartbeat);
    }
    let ModelFailureFacts { api_status, api_code, partial_text, usage } = model_failure(&error);
    let usage = usage.unwrap_or_default();
    Err(PlanFailure { timed_out, message, error_class, retryable, api_status, api_code, partial_text, usage })
}

/// Executes one call. An activity that returns nothing is not the last word: the call's journal is.
pub(crate) async fn tool(ctx: Context, order: ToolOrder, token: WorkflowCancellationToken) -> CallEnd {
    let ToolOrder { mut input, timeout, deadline } = order;
    let call = input.tool_call_id.clone();
    let heartbeat = tuning(&ctx, |tuning| tuning.heartbeat_timeout());
    let ends_at = deadline.map(|left| timestamp(ctx.workflow_time()).after(left));
    loop {
        let now = timestamp(ctx.workflow_time());
        let left = ends_at.map(|at| at.since(now));
        let options = ActivityOptions::with_close_timeouts(close_timeouts(timeout, left))
            .activity_id(format!("{}#{}", input.journal_id(), input.dispatch))
            .heartbeat_timeout(heartbeat.as_duration())
            .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
            .cancellation_token(token.clone())
            .retry_policy(
                RetryPolicy::builder()
                    .initial_interval(Duration::from_millis(500))
                    .maximum_interval(Duration::from_secs(30))
                    .maximum_attempts(if input.idempotent { IDEMPOTENT_ATTEMPTS } else { 1 })
                    .build(),
            )
            .summary(input.tool_name.to_string())
            .build();
        let error = match ctx.execute_activity(Tool, Wire(input.clone()), options).await {
            Ok(Wire(output)) => return CallEnd::Tool { call, output: Box::new(output), recorded: true },
            Err(error) => error,
        };
        let loss = match &error {
            ActivityExecutionError::Cancelled(_) => CallLoss::Cancelled,
            _ if error.as_timeout().is_some() => CallLoss::TimedOut,
            _ => CallLoss::Failed,
        };
        let settled = settle(&ctx, &input).await;
        let recorded = matches!(settled, SettleOutput::Finished { .. });
        let time_left = ends_at.is_none_or(|at| timestamp(ctx.workflow_time()) < at) && !token.is_cancelled();
        match after_loss(loss, settled, input.dispatch, time_left) {
            LossVerdict::Conclude(output) => return CallEnd::Tool { call, output, recorded },
            LossVerdict::Again => input.dispatch += 1,
        }
    }
}

async fn settle(ctx: &Context, input: &windlass_core::envelope::ToolInput) -> SettleOutput {
    let input = SettleInput {
        v: VERSION,
        run_id: input.run_id.clone(),
        tool_call_id: input.journal_id(),
        dispatch: input.dispatch,
        inline_limit: input.inline_limit,
    };
    // Without the journal the outcome is unknown.
    let settled = ask(ctx, Settle, Wire(input), "settle a lost call").await;
    settled.map_or(SettleOutput::Unknown, |Wire(settled)| settled)
}

/// Runs an agent as a child workflow.
pub(crate) async fn child(ctx: Context, order: ChildOrder, token: WorkflowCancellationToken) -> CallEnd {
    let ChildOrder { call, input } = order;
    let options = ChildWorkflowOptions::builder()
        .workflow_id(input.run_id.to_string())
        .parent_close_policy(ParentClosePolicy::RequestCancel)
        .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
        .cancellation_token(token)
        .static_summary(format!("{} for {}", input.agent_id, ctx.workflow_id()))
        .search_attributes(attributes::of_start(&input))
        .build();
    let report = match ctx.start_child_workflow(RunWorkflow::run, input, options).await {
        Err(error) if error.as_cancelled().is_some() => ChildReport::Cancelled,
        Err(error) => ChildReport::Failed { message: error.to_string() },
        Ok(child) => match child.result().await {
            Ok(output) => ChildReport::Finished(Box::new(output)),
            Err(error) if error.as_cancelled().is_some() => ChildReport::Cancelled,
            Err(error) => ChildReport::Failed { message: describe(error.reason()) },
        },
    };
    CallEnd::Child { call, report }
}

fn tuning<R>(ctx: &Context, read: impl FnOnce(&windlass_core::envelope::Tuning) -> R) -> R {
    ctx.state(|workflow| match &workflow.stage {
        Stage::Open(run) => read(run.tuning()),
        Stage::Opening { input, .. } => read(&input.tuning.clone().unwrap_or_default()),
    })
}

pub(crate) fn close_timeouts(attempt: Millis, overall: Option<Millis>) -> ActivityCloseTimeouts {
    // A zero timeout means "none" to the server; the budget check before dispatch makes this the last moment.
    let at_least = |span: Millis| span.max(Millis(1)).as_duration();
    match overall {
        Some(overall) => ActivityCloseTimeouts::ScheduleAndStartToClose {
            schedule_to_close: at_least(overall),
            start_to_close: at_least(attempt),
        },
        None => ActivityCloseTimeouts::StartToClose(at_least(attempt)),
    }
}

/// Asks the store something that gets the same answer whenever it is asked again. It goes on while the run is being
/// cancelled, so its token is its own.
pub(crate) async fn ask<A: ActivityDefinition>(
    ctx: &Context,
    question: A,
    input: A::Input,
    summary: &str,
) -> Result<A::Output, ActivityExecutionError> {
    let own = CancelledWhenDropped(WorkflowCancellationToken::new());
    let options = LocalActivityOptions::builder()
        .start_to_close_timeout(Duration::from_secs(60))
        .schedule_to_close_timeout(STORE_PATIENCE)
        .retry_policy(patient())
        .cancellation_token(own.0.clone())
        .summary(summary.to_owned())
        .build();
    ctx.execute_local_activity(question, input, options).await
}

/// A local activity and its token refer to each other until the activity ends or the token is cancelled. When a worker
/// evicts the run in between, only this frees them, and the workflow that the activity refers to.
struct CancelledWhenDropped(WorkflowCancellationToken);

impl Drop for CancelledWhenDropped {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Retried until it succeeds: the store may be unavailable for a while.
fn patient() -> RetryPolicy {
    RetryPolicy::builder()
        .initial_interval(Duration::from_millis(100))
        .maximum_interval(Duration::from_secs(30))
        .build()
}

pub(crate) struct Reason {
    pub(crate) message: String,
    error_class: Option<String>,
    pub(crate) retryable: bool,
    timed_out: bool,
}

/// The error under the SDK's wrappers: the activity's own message, or the server's.
pub(crate) fn reason(error: &ActivityExecutionError) -> Reason {
    let timed_out = error.as_timeout().is_some();
    let (error_class, retryable) = match error.reason() {
        Some(IncomingError::Application(failure)) => {
            (failure.type_name().map(str::to_owned), !failure.is_non_retryable())
        }
        _ => (None, timed_out),
    };
    // A local activity's failure comes without a wrapper.
    let own = error.reason().map(IncomingError::failure).or_else(|| error.failure());
    let message = match own {
        _ if timed_out => "the activity timed out".to_owned(),
        Some(failure) => failure.message.clone(),
        None => error.to_string(),
    };
    Reason { message, error_class, retryable, timed_out }
}

/// Which timeout ended a plan: that of one attempt, that of all attempts together, or the worker's heartbeat.
fn timeout_message(kind: TimeoutType, attempt: Millis, all: Option<Millis>, heartbeat: Millis) -> String {
    let secs = |span: Millis| span.as_duration().as_secs_f64();
    match kind {
        TimeoutType::StartToClose => format!("model call timed out after {} s", secs(attempt)),
        TimeoutType::Heartbeat => {
            format!("model call failed: its worker sent no heartbeat for {} s", secs(heartbeat))
        }
        _ => format!("model call timed out after {} s with all its attempts", secs(all.unwrap_or(attempt))),
    }
}

/// The details of a model's failure beside its message.
fn model_failure(error: &ActivityExecutionError) -> ModelFailureFacts {
    match error.reason() {
        Some(IncomingError::Application(failure)) => failure.details().ok().flatten().unwrap_or_default(),
        _ => ModelFailureFacts::default(),
    }
}

pub(crate) fn describe(error: Option<&IncomingError>) -> String {
    error.map_or_else(|| "no reason was given".to_owned(), |error| error.failure().message.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_timed_out_says_which_limit_it_reached() {
        let message = |kind| timeout_message(kind, Millis::from_secs(120), Some(Millis::from_secs(60)), Millis(1_500));
        let expected = [
            (TimeoutType::StartToClose, "model call timed out after 120 s"),
            (TimeoutType::Heartbeat, "model call failed: its worker sent no heartbeat for 1.5 s"),
            (TimeoutType::ScheduleToClose, "model call timed out after 60 s with all its attempts"),
        ];
        for (kind, expected) in expected {
            assert_eq!(message(kind), expected);
        }
    }
}
