//! `windlass.tool` and `windlass.settle`: one call, executed at most once unless its tool is idempotent.
//!
//! The store's journal of the call is written before the tool starts and after it ended. After a crash in between, the
//! journal shows whether the call never started, finished, or has an unknown outcome.

use std::{sync::Arc, time::Instant};

use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    body::Body,
    canonical::CanonicalJson,
    envelope::{
        CallStatus, Continuation, ReceiveInput, SettleInput, SettleOutput, ToolError, ToolErrorKind, ToolInput,
        ToolOutput, ToolTelemetry,
    },
    event::{EventBody, NewEvent},
    message::Part,
    time::Millis,
};
use windlass_store::{CallClaim, CallSettlement, FinishedCall, NewClaim};
use windlass_tools::{CallContext, ProgressSink, ToolFailure, ToolReply, ToolSuccess};

use crate::{
    RunActivities, deadline, definitions::Prepared, failures, heartbeat::with_heartbeat, progress::with_progress,
    secrets::RunSecrets,
};

/// One attempt of a call.
struct Call {
    args: CanonicalJson,
    prepared: Arc<Prepared>,
    attempt: u32,
    deadline: Option<Instant>,
}

/// The result of claiming a call.
enum Claimed {
    Called(Result<ToolReply, ToolFailure>),
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
        let secrets = Arc::new(self.secrets(&input.workspace, &input.run_id, input.session_id.as_ref()));
        let mut executed = std::pin::pin!(with_progress(&*self.store, input, call.attempt, &secrets, |progress| {
            self.execute(input, call, &secrets, progress, cancel)
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
                Some(called) => called?,
                None => executed.await?,
            })),
            CallClaim::Finished(output) => Ok(Claimed::Finished(output)),
            CallClaim::Fenced => Err(failures::permanent("fenced", "the call was given up or handed out again")),
            CallClaim::Unknown => {
                Err(failures::permanent("outcome_unknown", "the call began before and is not idempotent"))
            }
        }
    }

    /// Executes the tool that the run's own definition has under this name, and takes its result.
    async fn execute(
        &self,
        input: &ToolInput,
        call: &Call,
        secrets: &Arc<RunSecrets>,
        progress: ProgressSink,
        cancel: CancellationToken,
    ) -> Result<Result<ToolReply, ToolFailure>, ActivityError> {
        let name = &input.tool_name;
        let Some(spec) = call.prepared.definition.tool(name) else {
            let message = format!("the run's agent has no tool `{name}`");
            return Ok(Err(ToolFailure::new(ToolErrorKind::ToolUnavailable, message)));
        };
        if input.edited && call.prepared.check(name, call.args.to_value()).is_err() {
            let message = "the arguments that a person wrote do not fit the tool's schema; it was not executed";
            return Ok(Err(ToolFailure::new(ToolErrorKind::ToolInputInvalid, message)));
        }
        if input.edited && self.denies(&call.prepared.definition, input, &call.args).await? {
            let message = "the arguments that a person wrote are denied by an approval rule; it was not executed";
            return Ok(Err(ToolFailure::new(ToolErrorKind::PolicyDenied, message)));
        }
        let context = CallContext {
            workspace: input.workspace.clone(),
            session_id: input.session_id.clone(),
            run_id: input.run_id.clone(),
            call_id: input.tool_call_id.clone(),
            attempt: call.attempt,
            deadline: call.deadline,
            progress,
            secrets: Arc::clone(secrets) as _,
            cancel,
            draining: self.draining.clone(),
            resumption: input.resumption.clone(),
        };
        let replied = self.tools.call(&call.prepared.definition, spec, context, call.args.clone()).await;
        let redaction = secrets.redaction();
        let success = match replied {
            Ok(ToolReply::Done(success)) => success,
            Ok(ToolReply::Continue(continuation)) => {
                return Ok(redaction.continuation(continuation).map(ToolReply::Continue));
            }
            Err(failure) => return Ok(Err(redaction.failure(failure))),
        };
        // First, because a problem with the schema quotes the result.
        let success = redaction.success(success);
        if let Err(failure) = call.prepared.check_result(name, &success.result) {
            return Ok(Err(failure));
        }
        Ok(self.accept(success, Some(spec)).await?.map(ToolReply::Done))
    }

    async fn conclude(
        &self,
        input: &ToolInput,
        called: Result<ToolReply, ToolFailure>,
        took: Millis,
    ) -> Result<ToolOutput, ActivityError> {
        let (mut output, shown, large) = match called {
            Ok(ToolReply::Done(success)) => self.output_of(success, input.inline_limit).await?,
            Ok(ToolReply::Continue(continuation)) => (continued(continuation), None, None),
            Err(failure) => (failed(failure), None, None),
        };
        output.telemetry = Some(ToolTelemetry { duration_ms: took, ..ToolTelemetry::default() });
        let finished = FinishedCall {
            run: input.run_id.clone(),
            call: input.journal_id(),
            dispatch: input.dispatch,
            idempotent: input.idempotent,
            body: large,
            event: event_of(input, &output, shown),
            output,
        };
        self.store.finish_call(&finished).await.map_err(|error| failures::store(&error))?;
        let FinishedCall { output, body, .. } = finished;
        if let (Some(blob), Some(body)) = (output.result_ref(), body) {
            self.recent_bodies.keep(blob.digest, body);
        }
        Ok(output)
    }

    /// The output of a success, what an event shows of its result, and the body that is to be stored.
    async fn output_of(
        &self,
        success: ToolSuccess,
        inline_limit: u64,
    ) -> Result<(ToolOutput, Option<CanonicalJson>, Option<CanonicalJson>), ActivityError> {
        let content = self.content(success.content, inline_limit).await?;
        let shown = (success.result.bytes() <= EventBody::SHOWN_BYTES).then(|| success.result.clone());
        let (result, large) = Body::fit(success.result, inline_limit);
        let mut output = ToolOutput::new(CallStatus::Ok).with_result(&result).with_content(content.as_ref());
        output.bounds = success.bounds;
        output.server_data = success.server_data;
        Ok((output, shown, large))
    }

    /// The result of a call that the workflow itself scheduled. The workflow writes its event.
    pub(crate) async fn receive_result(&self, input: ReceiveInput) -> Result<ToolOutput, ActivityError> {
        let prepared = self.definition(input.agent_digest).await?;
        if let Err(failure) = prepared.check_result(&input.tool_name, &input.result) {
            return Ok(failed(failure));
        }
        let spec = prepared.definition.tool(&input.tool_name);
        let success = match self.accept(ToolSuccess::new(input.result), spec).await? {
            Ok(success) => success,
            Err(failure) => return Ok(failed(failure)),
        };
        let (output, _, large) = self.output_of(success, input.inline_limit).await?;
        self.put(large).await?;
        Ok(output)
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

fn failed(failure: ToolFailure) -> ToolOutput {
    let status = match failure.error.kind {
        ToolErrorKind::Cancelled => CallStatus::Cancelled,
        ToolErrorKind::OutcomeUnknown => CallStatus::OutcomeUnknown,
        _ => CallStatus::Failed,
    };
    let mut output = ToolOutput::new(status).with_error(failure.error);
    output.retry_hint = failure.hint.map(|hint| *hint);
    output
}

fn continued(continuation: Continuation) -> ToolOutput {
    let bytes = CanonicalJson::of(&continuation).map_or(u64::MAX, |json| json.bytes());
    if bytes > Continuation::MAX_BYTES {
        let message = format!("the tool needs {bytes} bytes to go on; at most {} are kept", Continuation::MAX_BYTES);
        return failed(ToolFailure::new(ToolErrorKind::ToolFailed, message));
    }
    // For workflows of older builds, which do not know that a call can go on.
    let error =
        ToolError::new(ToolErrorKind::ToolUnavailable, "the tool is not finished, and this run cannot go on with it");
    let mut output = ToolOutput::new(CallStatus::Failed).with_error(error);
    output.continuation = Some(continuation);
    output
}

/// What the log says of the end of a round: its result, or that the call goes on.
fn event_of(input: &ToolInput, output: &ToolOutput, shown: Option<CanonicalJson>) -> NewEvent {
    if let Some(continuation) = &output.continuation {
        let message = if continuation.inputs.is_empty() { "works on" } else { "waits for input" };
        let body = EventBody::ToolProgress {
            tool_use_id: input.tool_call_id.clone(),
            name: input.tool_name.clone(),
            attempt: 1,
            message: Some(message.to_owned()),
            progress: None,
            total: None,
        };
        return NewEvent::new(format!("call/{}/round", input.journal_id()), body);
    }
    let body = EventBody::ToolResult {
        tool_use_id: input.tool_call_id.clone(),
        name: input.tool_name.clone(),
        ok: output.status == CallStatus::Ok,
        status: output.status,
        result: shown,
        result_bytes: output.result_bytes,
        error: output.error.clone(),
        retry_hint: output.retry_hint.clone(),
        telemetry: output.telemetry.clone(),
    };
    NewEvent::new(format!("call/{}/result", input.tool_call_id), body)
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
        call: input.journal_id(),
        dispatch: input.dispatch,
        idempotent: input.idempotent,
        event,
    }
}
