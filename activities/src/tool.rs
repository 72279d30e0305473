//! `windlass.tool` and `windlass.settle`: one call, executed at most once unless it says that a repeat is harmless.
//!
//! The store's journal of the call is written before the tool begins and after it ended, so that whatever dies in
//! between, what is known and what is not can be told apart.

use std::time::Instant;

use serde_json::Value;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    canonical::{self, Digest},
    envelope::{
        BlobRef, CallStatus, SettleInput, SettleOutput, ToolError, ToolErrorKind, ToolInput, ToolOutput, ToolTelemetry,
    },
    event::{EventBody, NewEvent},
    time::Millis,
};
use windlass_store::{CallClaim, CallSettlement, FinishedCall, NewClaim};
use windlass_tools::{CallContext, ToolFailure, ToolSuccess};

use crate::{RunActivities, failures, heartbeat::with_heartbeat};

/// A larger result is a failure of the tool, not a burden for the run.
const MAX_RESULT: u64 = 4 * 1024 * 1024;

/// What came of the wish to execute a call.
enum Claimed {
    Called(Result<ToolSuccess, ToolFailure>),
    /// It was executed before.
    Finished(Box<ToolOutput>),
}

impl RunActivities {
    pub(crate) async fn execute_call(
        &self,
        ctx: ActivityContext,
        input: ToolInput,
    ) -> Result<ToolOutput, ActivityError> {
        // Before the claim: what fails here provably did not begin.
        let args = self.arguments(&input).await?;
        let attempt = ctx.info().attempt;
        let last_attempt = ctx
            .info()
            .retry_policy
            .as_ref()
            .is_some_and(|policy| policy.maximum_attempts() > 0 && attempt >= policy.maximum_attempts());
        let begun = Instant::now();
        let claimed = with_heartbeat(&ctx, |cancel| self.claim_and_call(&input, args, attempt, cancel)).await?;
        let called = match claimed {
            Claimed::Called(called) => called,
            Claimed::Finished(output) => return Ok(*output),
        };
        if let Err(failure) = &called
            && input.idempotent
            && !last_attempt
            && (failure.retryable || self.interrupted_by_shutdown(failure))
        {
            return Err(failures::transient("tool_failed", failure.error.message.clone()));
        }
        let took = Millis(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        self.conclude(&input, called, took).await
    }

    /// A worker that shuts down cancels its calls; the result is still wanted.
    fn interrupted_by_shutdown(&self, failure: &ToolFailure) -> bool {
        failure.error.kind == ToolErrorKind::Cancelled && self.draining.is_cancelled()
    }

    /// The arguments, which must be exactly those that were admitted and, where it was needed, approved.
    async fn arguments(&self, input: &ToolInput) -> Result<Value, ActivityError> {
        let args = match (&input.payload, input.payload_ref) {
            (Some(args), _) => args.clone(),
            (None, Some(stored)) => self.body(stored).await?,
            (None, None) => Value::Null,
        };
        if Digest::of_json(&args) == input.payload_digest {
            Ok(args)
        } else {
            Err(failures::permanent("digest_mismatch", "the arguments are not those that were admitted"))
        }
    }

    /// Executes the call if it may begin.
    async fn claim_and_call(
        &self,
        input: &ToolInput,
        args: Value,
        attempt: u32,
        cancel: CancellationToken,
    ) -> Result<Claimed, ActivityError> {
        let claim = self.store.claim_call(claim_of(input, &args));
        let mut call = std::pin::pin!(self.call(input, args, attempt, cancel));
        // A first attempt that may be repeated need not wait for its claim: if that is refused, nothing is lost.
        let (claim, early) = if input.idempotent && attempt == 1 {
            let (claim, called) = tokio::join!(claim, &mut call);
            (claim, Some(called))
        } else {
            (claim.await, None)
        };
        match claim.map_err(|error| failures::store(&error))? {
            CallClaim::Execute { .. } => Ok(Claimed::Called(match early {
                Some(called) => called,
                None => call.await,
            })),
            CallClaim::Finished(output) => Ok(Claimed::Finished(output)),
            CallClaim::Fenced => Err(failures::permanent("fenced", "the call was given up or handed out again")),
            CallClaim::Unknown => {
                Err(failures::permanent("outcome_unknown", "the call began before and is not idempotent"))
            }
        }
    }

    async fn call(
        &self,
        input: &ToolInput,
        args: Value,
        attempt: u32,
        cancel: CancellationToken,
    ) -> Result<ToolSuccess, ToolFailure> {
        let Some(tool) = self.tools.get(&input.tool_name) else {
            let message = format!("this worker has no tool `{}`", input.tool_name);
            return Err(ToolFailure::new(ToolErrorKind::ToolUnavailable, message));
        };
        let context = CallContext {
            workspace: input.workspace.clone(),
            run_id: input.run_id.clone(),
            call_id: input.tool_call_id.clone(),
            attempt,
            cancel,
        };
        tool.call(context, args).await
    }

    async fn conclude(
        &self,
        input: &ToolInput,
        called: Result<ToolSuccess, ToolFailure>,
        took: Millis,
    ) -> Result<ToolOutput, ActivityError> {
        let (mut output, body) = match called {
            Ok(success) => {
                let bytes = canonical::to_bytes(&success.result);
                let stored = BlobRef { digest: Digest::of_bytes(&bytes), bytes: bytes.len() as u64 };
                if stored.bytes > MAX_RESULT {
                    let message = format!("the result has {} bytes; at most {MAX_RESULT} are taken", stored.bytes);
                    let error = ToolError::new(ToolErrorKind::ToolFailed, message);
                    (ToolOutput::new(CallStatus::Failed).with_error(error), None)
                } else {
                    let mut output = ToolOutput::new(CallStatus::Ok);
                    output.bounds = success.bounds;
                    output.server_data = success.server_data;
                    (output.with_result(success.result.clone(), stored, input.inline_limit), Some(success.result))
                }
            }
            Err(failure) => {
                let cancelled = failure.error.kind == ToolErrorKind::Cancelled;
                let status = if cancelled { CallStatus::Cancelled } else { CallStatus::Failed };
                let mut output = ToolOutput::new(status).with_error(failure.error);
                output.retry_hint = failure.hint.map(|hint| *hint);
                (output, None)
            }
        };
        output.telemetry = Some(ToolTelemetry { duration_ms: took, ..ToolTelemetry::default() });
        let event = NewEvent::new(
            format!("call/{}/result", input.tool_call_id),
            EventBody::ToolResult {
                tool_use_id: input.tool_call_id.clone(),
                name: input.tool_name.clone(),
                ok: output.status == CallStatus::Ok,
                status: output.status,
                result: body.clone().filter(|_| output.result_bytes <= EventBody::SHOWN_BYTES),
                result_bytes: output.result_bytes,
                error: output.error.clone(),
                retry_hint: output.retry_hint.clone(),
                telemetry: output.telemetry.clone(),
            },
        );
        let finished = FinishedCall {
            run: input.run_id.clone(),
            call: input.tool_call_id.clone(),
            dispatch: input.dispatch,
            idempotent: input.idempotent,
            // A result that travels is in the output already.
            body: body.filter(|_| output.result_ref.is_some()),
            output,
            event,
        };
        self.store.finish_call(&finished).await.map_err(|error| failures::store(&error))?;
        Ok(finished.output)
    }

    pub(crate) async fn settle_call(&self, input: SettleInput) -> Result<SettleOutput, ActivityError> {
        let settled = self.store.settle_call(&input.run_id, &input.tool_call_id, input.dispatch).await;
        Ok(match settled.map_err(|error| failures::store(&error))? {
            CallSettlement::Finished(output) => SettleOutput::Finished { output },
            CallSettlement::NeverStarted => SettleOutput::NeverStarted,
            CallSettlement::Unknown => SettleOutput::Unknown,
        })
    }
}

/// The wish to execute the call, with the event that says that it begins.
fn claim_of(input: &ToolInput, args: &Value) -> NewClaim {
    let event = NewEvent::new(
        format!("call/{}/begin", input.tool_call_id),
        EventBody::ToolCall {
            tool_use_id: input.tool_call_id.clone(),
            name: input.tool_name.clone(),
            input: input.payload.is_some().then(|| args.clone()),
            digest: input.payload_digest,
            turn: input.turn,
        },
    );
    NewClaim {
        run: input.run_id.clone(),
        call: input.tool_call_id.clone(),
        dispatch: input.dispatch,
        idempotent: input.idempotent,
        event,
    }
}
