//! `windlass.tool` and `windlass.settle`: one call, executed at most once unless its tool is idempotent.
//!
//! The store's journal of the call is written before the tool starts and after it ended. After a crash in between, the
//! journal shows whether the call never started, finished, or has an unknown outcome.

use std::{sync::Arc, time::Instant};

use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::ToolSource,
    body::Body,
    canonical::CanonicalJson,
    envelope::{CallStatus, SettleInput, SettleOutput, ToolError, ToolErrorKind, ToolInput, ToolOutput, ToolTelemetry},
    event::{EventBody, NewEvent},
    message::Part,
    time::Millis,
};
use windlass_store::{CallClaim, CallSettlement, FinishedCall, NewClaim};
use windlass_tools::{CallContext, ProgressSink, ToolFailure, ToolSuccess};

use crate::{
    RunActivities, deadline, definitions::Prepared, failures, heartbeat::with_heartbeat, progress::with_progress,
};

/// A larger result is a failure of the tool.
const MAX_RESULT: u64 = 4 * 1024 * 1024;

/// One attempt of a call.
struct Call {
    args: CanonicalJson,
    prepared: Arc<Prepared>,
    attempt: u32,
    deadline: Option<Instant>,
}

/// The result of claiming a call.
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
        // Before the claim: a call that fails here did not start.
        let call = Call {
            args: self.arguments(&input).await?,
            prepared: self.definition(input.agent_digest).await?,
            attempt: ctx.info().attempt,
            deadline: deadline::of(&ctx),
        };
        let last_attempt = ctx
            .info()
            .retry_policy
            .as_ref()
            .is_some_and(|policy| policy.maximum_attempts() > 0 && call.attempt >= policy.maximum_attempts());
        let begun = Instant::now();
        let claimed = with_heartbeat(&ctx, |cancel| self.claim_and_call(&input, &call, cancel)).await?;
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
    async fn arguments(&self, input: &ToolInput) -> Result<CanonicalJson, ActivityError> {
        let args = match input.args() {
            Some(args) => self.text(args).await?,
            None => CanonicalJson::null(),
        };
        if args.digest() == input.payload_digest {
            Ok(args)
        } else {
            Err(failures::permanent("digest_mismatch", "the arguments are not those that were admitted"))
        }
    }

    /// Executes the call if it may begin.
    async fn claim_and_call(
        &self,
        input: &ToolInput,
        call: &Call,
        cancel: CancellationToken,
    ) -> Result<Claimed, ActivityError> {
        let claim = self.store.claim_call(claim_of(input, &call.args));
        let mut executed = std::pin::pin!(with_progress(&*self.store, input, call.attempt, |progress| {
            self.execute(input, call, progress, cancel)
        }));
        // A first attempt that may be repeated need not wait for its claim: if that is refused, nothing is lost.
        let (claim, early) = if input.idempotent && call.attempt == 1 {
            let (claim, called) = tokio::join!(claim, &mut executed);
            (claim, Some(called))
        } else {
            (claim.await, None)
        };
        match claim.map_err(|error| failures::store(&error))? {
            CallClaim::Execute { .. } => Ok(Claimed::Called(match early {
                Some(called) => called,
                None => executed.await,
            })),
            CallClaim::Finished(output) => Ok(Claimed::Finished(output)),
            CallClaim::Fenced => Err(failures::permanent("fenced", "the call was given up or handed out again")),
            CallClaim::Unknown => {
                Err(failures::permanent("outcome_unknown", "the call began before and is not idempotent"))
            }
        }
    }

    /// Executes the tool that the run's own definition has under this name.
    async fn execute(
        &self,
        input: &ToolInput,
        call: &Call,
        progress: ProgressSink,
        cancel: CancellationToken,
    ) -> Result<ToolSuccess, ToolFailure> {
        let name = &input.tool_name;
        let tool = match call.prepared.definition.tool(name).map(|spec| &spec.source) {
            Some(ToolSource::Builtin) => {
                self.tools.get(name).ok_or_else(|| format!("this worker has no tool `{name}`"))
            }
            Some(ToolSource::Other(fields)) => {
                let kind = fields.kind();
                Err(format!("this worker's build does not know tools of kind `{kind}`; upgrade the worker"))
            }
            // The workflow executes these as child runs and awaits.
            Some(_) | None => {
                Err(format!("the run's agent has no tool `{name}` that a worker executes"))
            }
        };
        let tool = tool.map_err(|message| ToolFailure::new(ToolErrorKind::ToolUnavailable, message))?;
        let context = CallContext {
            workspace: input.workspace.clone(),
            session_id: input.session_id.clone(),
            run_id: input.run_id.clone(),
            call_id: input.tool_call_id.clone(),
            attempt: call.attempt,
            deadline: call.deadline,
            progress,
            secrets: Arc::new(self.secrets(&input.workspace, &input.run_id, input.session_id.as_ref())),
            cancel,
            resumption: input.resumption.clone(),
        };
        let success = tool.call(context, call.args.clone()).await?;
        call.prepared.check_result(name, &success.result)?;
        Ok(success)
    }

    async fn conclude(
        &self,
        input: &ToolInput,
        called: Result<ToolSuccess, ToolFailure>,
        took: Millis,
    ) -> Result<ToolOutput, ActivityError> {
        let (mut output, shown, large) = match called {
            Ok(success) if success.result.bytes() > MAX_RESULT => {
                let bytes = success.result.bytes();
                let message = format!("the result has {bytes} bytes; at most {MAX_RESULT} are taken");
                let error = ToolError::new(ToolErrorKind::ToolFailed, message);
                (ToolOutput::new(CallStatus::Failed).with_error(error), None, None)
            }
            Ok(success) => {
                let content = self.content(success.content, input.inline_limit).await?;
                let shown = (success.result.bytes() <= EventBody::SHOWN_BYTES).then(|| success.result.clone());
                let (result, large) = Body::fit(success.result, input.inline_limit);
                let mut output = ToolOutput::new(CallStatus::Ok).with_result(&result).with_content(content.as_ref());
                output.bounds = success.bounds;
                output.server_data = success.server_data;
                (output, shown, large)
            }
            Err(failure) => {
                let cancelled = failure.error.kind == ToolErrorKind::Cancelled;
                let status = if cancelled { CallStatus::Cancelled } else { CallStatus::Failed };
                let mut output = ToolOutput::new(status).with_error(failure.error);
                output.retry_hint = failure.hint.map(|hint| *hint);
                (output, None, None)
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
                result: shown,
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
            body: large,
            output,
            event,
        };
        self.store.finish_call(&finished).await.map_err(|error| failures::store(&error))?;
        Ok(finished.output)
    }

    /// Parts of a result, as a body. Their files are bodies of their own: a later message refers to them.
    async fn content(&self, mut parts: Vec<Part>, inline_limit: u64) -> Result<Option<Body>, ActivityError> {
        if parts.is_empty() {
            return Ok(None);
        }
        self.detach_files(&mut parts, inline_limit).await?;
        let json =
            CanonicalJson::of(&parts).map_err(|error| failures::permanent("content_unreadable", error.to_string()))?;
        let (body, large) = Body::fit(json, inline_limit);
        self.put(large).await?;
        Ok(Some(body))
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

/// The claim of the call, with its `tool_call` event.
fn claim_of(input: &ToolInput, args: &CanonicalJson) -> NewClaim {
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
