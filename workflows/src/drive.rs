//! The run loop: it gets the next step from the core, executes it and reports the result. It decides nothing itself.
//!
//! No operation is started with the workflow's own cancellation token. A token holds references to operations that are
//! dropped before they end (a timer when an answer arrives, everything when the worker evicts the run), and an operation
//! holds a reference to its workflow: with the workflow's own token none of them would ever be freed.

use std::time::{SystemTime, UNIX_EPOCH};

use temporalio_workflow::{
    CancellableFuture, ContinueAsNewOptions, MemoValues, TimerOptions, WaitConditionOptions, WorkflowCancellationToken,
    WorkflowContext, WorkflowResult, WorkflowTermination, common::error::ApplicationFailure, workflows::select,
};
use windlass_core::{
    envelope::{PlanActivityOutput, RunOutput},
    event::EventBody,
    failure::RunFailure,
    run::{Order, Outcome, Phase, Run, RunStatus, Step},
    stop::StopOutcome,
    time::Timestamp,
};

use crate::{
    attributes, elsewhere, execute,
    in_flight::{CallEnd, InFlight},
    patches,
    run::{RunWorkflow, Stage},
};

type Context = WorkflowContext<RunWorkflow>;

pub(crate) async fn drive(ctx: &mut Context) -> WorkflowResult<RunOutput> {
    open(ctx).await?;
    let mut calls = InFlight::default();
    let planning = ctx.cancellation_token().child_token();
    let mut shown = RunStatus::Running;
    loop {
        notice_cancellation(ctx);
        let history = ctx.history_length();
        let step = with_run(ctx, |run, now| {
            run.tick(now);
            run.next(history)
        });
        // Handing out a call does not change the status: the run waits before and after it.
        if step != Step::HandOut {
            show_status(ctx, &mut shown);
        }
        match step {
            Step::Plan => plan(ctx, &planning).await,
            Step::HandOut => with_run(ctx, |run, now| run.hand_out_due(now)),
            Step::Dispatch => dispatch(ctx, &mut calls),
            Step::Wait => wait(ctx, &mut calls).await,
            Step::ContinueAsNew => continue_as_new(ctx).await?,
            Step::Finish => return finish(ctx).await,
        }
    }
}

/// Executes `open`, unless the run continued as new.
async fn open(ctx: &Context) -> Result<(), WorkflowTermination> {
    let input = ctx.state(|workflow| match &workflow.stage {
        Stage::Opening { input, .. } => Some((**input).clone()),
        Stage::Open(_) => None,
    });
    let Some(input) = input else { return Ok(()) };
    if ctx.search_attributes().get(&attributes::STATUS).is_none() {
        ctx.upsert_search_attributes(attributes::at_start(&input));
    }
    let opened = match Run::check(&input, ctx.workflow_id()) {
        Ok(()) => execute::open(ctx, input.clone()).await,
        Err(failure) => Err(failure),
    };
    let run = match opened {
        Ok(opened) => Run::open(input, opened),
        Err(failure) => {
            show(ctx, RunStatus::Failed, Phase::Done);
            return Err(failed(&failure));
        }
    };
    ctx.state_mut(|workflow| {
        workflow.now = timestamp(ctx.workflow_time());
        workflow.opened_as(run);
    });
    Ok(())
}

async fn plan(ctx: &Context, token: &WorkflowCancellationToken) {
    let order = with_run(ctx, |run, now| run.begin_plan(now));
    let planned = execute::plan(ctx, order, token.clone()).await;
    notice_cancellation(ctx);
    match planned {
        Ok(output) => {
            let stop = stop_outcome(ctx, &output);
            with_run(ctx, |run, now| run.plan_succeeded(output, stop, now));
        }
        Err(failure) => with_run(ctx, |run, now| run.plan_failed(failure, now)),
    }
}

/// What a turn means. Before the patches only a final answer was judged by its stop reason, fewer reasons were known, and
/// an answer was not repaired.
fn stop_outcome(ctx: &Context, output: &PlanActivityOutput) -> StopOutcome {
    match with_run(ctx, |run, _| run.turn_outcome(output)) {
        StopOutcome::Repair if !ctx.patched(patches::REPAIR_TURN) => StopOutcome::Proceed,
        StopOutcome::Repair => StopOutcome::Repair,
        // The same with and without the patch, so ordinary turns need no marker.
        StopOutcome::Proceed => StopOutcome::Proceed,
        outcome if ctx.patched(patches::STOP_OUTCOMES) => outcome,
        _ => StopOutcome::Proceed,
    }
}

fn dispatch(ctx: &Context, calls: &mut InFlight) {
    for order in with_run(ctx, |run, now| run.dispatch(now)) {
        match order {
            Order::Tool(order) => calls.push(execute::tool(ctx.clone(), *order, calls.token())),
            Order::Child(order) => calls.push(execute::child(ctx.clone(), *order, calls.token())),
            Order::Temporal(order) => calls.push(elsewhere::temporal(ctx.clone(), *order, calls.token())),
        }
    }
}

/// Waits until a call ends, a signal or update arrives, an await expires or the run is cancelled.
async fn wait(ctx: &Context, calls: &mut InFlight) {
    if record(ctx).await {
        return;
    }
    let (ended, deadline, seen) =
        with_run_and_revision(ctx, |run, revision| (run.state().outcome.clone(), run.next_deadline(), revision));
    if let Some(outcome) = ended {
        // The outcome is decided: calls in flight are cancelled and report.
        calls.cancel(outcome.status().as_str());
        return report(ctx, calls.next().await);
    }
    let detached = WaitConditionOptions::builder().cancellation_token(WorkflowCancellationToken::new()).build();
    let mut spoken =
        std::pin::pin!(ctx.wait_condition_with_options(move |workflow| workflow.revision != seen, detached));
    let mut cancelled = std::pin::pin!(ctx.cancelled());
    let mut call = std::pin::pin!(futures_util::FutureExt::fuse(calls.next()));
    let Some(deadline) = deadline else {
        select! {
            end = call => report(ctx, end),
            _ = spoken => {}
            _ = cancelled => {}
        }
        return;
    };
    let left = deadline.since(timestamp(ctx.workflow_time()));
    let own = WorkflowCancellationToken::new();
    let expiry = TimerOptions::builder(left.as_duration()).cancellation_token(own).summary("await expires".to_owned());
    let mut timer = ctx.timer(expiry.build());
    select! {
        end = call => { timer.cancel(); report(ctx, end) }
        _ = spoken => timer.cancel(),
        _ = cancelled => timer.cancel(),
        _ = timer => {}
    }
}

fn report(ctx: &Context, mut end: CallEnd) {
    if let CallEnd::Tool { output, .. } = &mut end
        && output.continuation.is_some()
        && !ctx.patched(patches::CALL_ROUNDS)
    {
        output.continuation = None;
    }
    with_run(ctx, |run, now| match end {
        CallEnd::Tool { call, output, recorded } => run.tool_finished(&call, *output, recorded, now),
        CallEnd::Child { call, report } => run.child_finished(&call, report, now),
    });
}

/// Writes the run's events so far; returns whether there were any.
async fn record(ctx: &Context) -> bool {
    let Some(input) = with_run(ctx, |run, _| (!run.outgoing().is_empty()).then(|| run.record_input())) else {
        return false;
    };
    if let Err(failure) = execute::record(ctx, input).await {
        with_run(ctx, |run, _| run.fail(failure));
    }
    true
}

async fn continue_as_new(ctx: &Context) -> Result<(), WorkflowTermination> {
    let handlers = ctx.clone();
    let detached = WaitConditionOptions::builder().cancellation_token(WorkflowCancellationToken::new()).build();
    // Nothing that a handler accepted may be lost. A signal that arrives meanwhile makes the server reject this task, and the
    // loop runs again.
    ctx.wait_condition_with_options(move |_| handlers.all_handlers_finished(), detached).await.ok();
    let next = with_run(ctx, |run, _| run.continue_as_new());
    let mut memo = MemoValues::new();
    for (key, value) in next.workflow_options.iter().flat_map(|options| &options.memo) {
        memo.insert(key, value.clone());
    }
    if let Some(installation) = &next.installation {
        memo.insert(attributes::INSTALLATION, installation.to_string());
    }
    let options = ContinueAsNewOptions::builder().search_attributes(ctx.search_attributes()).memo(memo).build();
    ctx.continue_as_new(next, options).map(|_| ())
}

async fn finish(ctx: &Context) -> WorkflowResult<RunOutput> {
    let ending = with_run(ctx, |run, now| run.end(now));
    if let Err(failure) = execute::record(ctx, ending.record).await {
        return Err(failed(&failure));
    }
    match ending.outcome {
        Outcome::Completed { .. } => Ok(ending.output),
        Outcome::Failed { failure } => Err(failed(&failure)),
        Outcome::Cancelled { reason } => Err(WorkflowTermination::cancelled_with_details(reason)),
    }
}

fn failed(failure: &RunFailure) -> WorkflowTermination {
    ApplicationFailure::builder(failure.clone())
        .type_name(failure.code().to_owned())
        // A run's log is closed by its end, so a run is never retried as a whole; another one is started instead.
        .non_retryable(true)
        .build()
        .into()
}

fn notice_cancellation(ctx: &Context) {
    let token = ctx.cancellation_token();
    if token.is_cancelled() {
        let reason = token.reason().filter(|reason| !reason.is_empty());
        let reason = reason.unwrap_or_else(|| "cancelled".to_owned());
        with_run(ctx, |run, now| run.cancel(&reason, now));
    }
}

/// Updates the search attributes for lists and the UI. Only a changed status or phase costs a history event.
fn show_status(ctx: &Context, shown: &mut RunStatus) {
    let (status, phase, turn) = with_run(ctx, |run, _| (run.status(), run.phase(), run.state().turn));
    ctx.set_current_details(format!("{} · {} · turn {turn}", status.as_str(), phase.as_str()));
    if status != *shown {
        *shown = status;
        show(ctx, status, phase);
        if !status.is_terminal() {
            with_run(ctx, |run, _| run.outgoing().event(EventBody::Status { status, phase }));
        }
    }
}

fn show(ctx: &Context, status: RunStatus, phase: Phase) {
    ctx.upsert_search_attributes([
        attributes::STATUS.value_set(status.as_str().to_owned()),
        attributes::PHASE.value_set(phase.as_str().to_owned()),
    ]);
}

pub(crate) fn timestamp(time: Option<SystemTime>) -> Timestamp {
    let since_epoch = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

fn with_run<R>(ctx: &Context, act: impl FnOnce(&mut Run, Timestamp) -> R) -> R {
    let now = timestamp(ctx.workflow_time());
    ctx.state_mut(|workflow| {
        workflow.now = now;
        match &mut workflow.stage {
            Stage::Open(run) => act(run, now),
            Stage::Opening { .. } => unreachable!("the loop begins once the run is open"),
        }
    })
}

fn with_run_and_revision<R>(ctx: &Context, read: impl FnOnce(&mut Run, u64) -> R) -> R {
    let revision = ctx.state(|workflow| workflow.revision);
    with_run(ctx, |run, _| read(run, revision))
}
