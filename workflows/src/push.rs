//! The push workflow: sends the updates of one run to one receiver, one after the other, until the run has ended.
//!
//! Temporal repeats what fails. When it gives up, the config says why. The workflow ends when it is cancelled, which is
//! what deleting a config does.

use std::time::Duration;

use temporalio_macros::{workflow, workflow_methods};
use temporalio_workflow::{
    ActivityCloseTimeouts, ActivityExecutionError, ActivityOptions, CancellableFuture, ContinueAsNewOptions,
    RetryPolicy, TimerOptions, WorkflowCancellationToken, WorkflowContext, WorkflowContextView, WorkflowResult,
    WorkflowTermination, workflows::select,
};
use windlass_core::envelope::{EndPushInput, PushInput, PushOutput, VERSION};

use crate::{
    contract::{EndPush, Push},
    execute::{Reason, reason},
    wire::Wire,
};

/// Waiting for an update and sending it. The activity itself waits for less than this.
const ATTEMPT: Duration = Duration::from_secs(120);
/// A notification that was not accepted for so long is given up.
const GIVE_UP: Duration = Duration::from_secs(24 * 60 * 60);
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The first and the longest pause between two attempts.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(10 * 60);
/// The first and the longest pause before a run without news is looked at again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// History events after which the workflow continues as new.
const LONGEST_HISTORY: u32 = 1_000;

/// Sends updates to one receiver.
#[workflow]
#[derive(Debug)]
pub struct PushWorkflow {
    input: PushInput,
}

type Context = WorkflowContext<PushWorkflow>;

#[workflow_methods]
impl PushWorkflow {
    #[init]
    fn new(_ctx: &WorkflowContextView, input: PushInput) -> Self {
        Self { input }
    }

    #[run(name = crate::contract::PUSH_WORKFLOW)]
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<PushOutput> {
        let mut input = ctx.state(|workflow| workflow.input.clone());
        let mut pause = FIRST_PAUSE;
        loop {
            let PushOutput { v, cursor, ended } = match push(ctx, &input).await {
                Ok(output) => output,
                Err(_) if ctx.cancellation_token().is_cancelled() => return Err(WorkflowTermination::cancelled()),
                Err(error) => {
                    end(ctx, &input, Some(given_up(&error))).await?;
                    return Ok(PushOutput { v: VERSION, cursor: input.cursor, ended: true });
                }
            };
            if ended {
                end(ctx, &input, None).await?;
                return Ok(PushOutput { v, cursor, ended });
            }
            let news = cursor != input.cursor;
            input.cursor = cursor;
            if news {
                pause = FIRST_PAUSE;
            } else {
                wait(ctx, pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            if ctx.cancellation_token().is_cancelled() {
                return Err(WorkflowTermination::cancelled());
            }
            if ctx.history_length() >= LONGEST_HISTORY {
                ctx.continue_as_new(input.clone(), ContinueAsNewOptions::builder().build())?;
            }
        }
    }
}

async fn push(ctx: &Context, input: &PushInput) -> Result<PushOutput, ActivityExecutionError> {
    let token = WorkflowCancellationToken::new();
    let timeouts =
        ActivityCloseTimeouts::ScheduleAndStartToClose { schedule_to_close: GIVE_UP, start_to_close: ATTEMPT };
    let options = ActivityOptions::with_close_timeouts(timeouts)
        .heartbeat_timeout(HEARTBEAT)
        .cancellation_token(token.clone())
        .retry_policy(
            RetryPolicy::builder()
                .initial_interval(FIRST_RETRY)
                .backoff_coefficient(2.0)
                .maximum_interval(LONGEST_RETRY)
                .build(),
        )
        .summary(format!("after {}.{}", input.cursor.seq, input.cursor.sent))
        .build();
    let mut sent =
        std::pin::pin!(futures_util::FutureExt::fuse(ctx.execute_activity(Push, Wire(input.clone()), options)));
    let mut cancelled = std::pin::pin!(futures_util::FutureExt::fuse(ctx.cancelled()));
    let first = select! {
        done = sent => Some(done),
        _ = cancelled => None,
    };
    let done = match first {
        Some(done) => done,
        None => {
            token.cancel();
            sent.await
        }
    };
    done.map(|Wire(output)| output)
}

/// Notes the end in the config. It goes on while the workflow is being cancelled.
async fn end(ctx: &Context, input: &PushInput, error: Option<String>) -> Result<(), WorkflowTermination> {
    let PushInput { run_id, config_id, installation, .. } = input.clone();
    let note = EndPushInput { v: VERSION, run_id, config_id, error, installation };
    let options = ActivityOptions::with_start_to_close_timeout(Duration::from_secs(30))
        .cancellation_token(WorkflowCancellationToken::new())
        .retry_policy(RetryPolicy::builder().initial_interval(FIRST_RETRY).maximum_interval(LONGEST_PAUSE).build())
        .build();
    ctx.execute_activity(EndPush, Wire(note), options).await?;
    Ok(())
}

async fn wait(ctx: &Context, pause: Duration) {
    let own = TimerOptions::builder(pause).cancellation_token(WorkflowCancellationToken::new()).build();
    let mut timer = ctx.timer(own);
    let mut cancelled = std::pin::pin!(futures_util::FutureExt::fuse(ctx.cancelled()));
    select! {
        _ = timer => {}
        _ = cancelled => timer.cancel(),
    }
}

/// Why no more attempts are made. The last attempt's own reason says more than its time-out.
fn given_up(error: &ActivityExecutionError) -> String {
    let Reason { message, retryable, .. } = reason(error);
    let cause = error.as_timeout().and_then(|timeout| timeout.failure().cause.as_deref());
    let last = cause.map_or(message, |cause| cause.message.clone());
    match retryable {
        true => format!("no attempt succeeded within {} h: {last}", GIVE_UP.as_secs() / 3600),
        false => last,
    }
}
