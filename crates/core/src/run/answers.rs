//! Answers to awaits, and what happens when an await expires.

use super::{
    Run,
    rounds::{read_inputs, respond_to_all},
};
use crate::{
    agent::{ToolDispatch, ToolEntry},
    approval::Grant,
    awaits::{AwaitKind, AwaitView, ExpiryOutcome, NewAwait, Resolution},
    body::Body,
    canonical::{CanonicalJson, Digest},
    envelope::{
        Actor, Answer, AnswerBody, AnswerReply, AnswerStatus, CallAnswer, CallStatus, InputAction, ProvidedToolResult,
        ToolCallOutput, ToolError, ToolErrorKind, ToolOutput, ToolRequest,
    },
    event::{AwaitClosure, EventBody},
    failure::{RunFailure, RunFailureKind},
    ids::{AwaitId, CallId, ToolName},
    message::Message,
    time::Timestamp,
};

impl Run {
    /// Applies an answer. An answer that is not accepted is recorded and changes nothing.
    pub fn answer(&mut self, answer: Answer, now: Timestamp) -> AnswerReply {
        let judged = if self.state.outcome.is_some() {
            Err(AnswerReply::run_ended())
        } else {
            let judged = self.state.awaits.judge(&answer, self.input.started_by.as_ref(), now);
            let judged = judged.and_then(|resolution| self.check_plan_size(resolution, &answer.body));
            judged.and_then(|resolution| Ok((resolution, self.grant_of(&answer, now)?)))
        };
        match judged {
            Err(reply) => self.reject_answer(answer.await_id.as_str(), &answer.actor, reply),
            Ok((resolution, grant)) => {
                if let Some(item) =
                    self.close_await(&answer.await_id, resolution.closure, Some((&answer, resolution.answer_digest)))
                {
                    if let Some(grant) = grant {
                        self.outgoing.event(EventBody::ApprovalGranted { grant });
                    }
                    self.apply(&item, answer, now);
                }
                self.settle_if_done(now);
                AnswerReply::new(AnswerStatus::Accepted, "accepted")
            }
        }
    }

    /// The grant that an approval asks for. The activity that writes the log stores it.
    fn grant_of(&self, answer: &Answer, now: Timestamp) -> Result<Option<Grant>, AnswerReply> {
        let AnswerBody::Confirmation { grant: Some(request), .. } = &answer.body else { return Ok(None) };
        let item = self.state.awaits.pending().iter().find(|item| item.id == answer.await_id);
        let Some(call) = item.and_then(|item| item.calls.first()) else { return Ok(None) };
        let grant = request.grant(call, &self.input, &answer.actor.clipped(clip), now);
        grant.map(Some).map_err(|message| AnswerReply::new(AnswerStatus::Invalid, message))
    }

    /// Applies the result of one externally executed call, addressed by the call's id.
    pub fn answer_call(&mut self, answer: CallAnswer, now: Timestamp) -> AnswerReply {
        let CallAnswer { actor, own_tools_only, result, .. } = answer;
        let call = result.tool_call_id.clone();
        let found = if self.state.outcome.is_some() {
            Err(AnswerReply::run_ended())
        } else if own_tools_only && self.is_not_callers_own(&call) {
            let why =
                format!("call {call} is not of one of the caller's own tools; its result takes the scope runs:answer");
            Err(AnswerReply::new(AnswerStatus::Invalid, why))
        } else {
            self.state.awaits.of_call(&result)
        };
        match found {
            Err(reply) => self.reject_answer(call.as_str(), &actor, reply),
            Ok(id) => self.answer(Answer::new(id, actor, AnswerBody::ToolResults { results: vec![result] }), now),
        }
    }

    /// Whether the call's tool is executed by anyone but the run's caller.
    fn is_not_callers_own(&self, call: &CallId) -> bool {
        let is_own = |tool: &ToolEntry| matches!(tool.dispatch, ToolDispatch::External { client: Some(_), .. });
        let slot = self.state.batch.iter().find(|slot| slot.request.tool_call_id == *call);
        slot.is_some_and(|slot| !self.state.tools.get(&slot.request.name).is_some_and(is_own))
    }

    /// Records a rejected answer. The state does not change.
    fn reject_answer(&mut self, addressee: &str, actor: &Actor, reply: AnswerReply) -> AnswerReply {
        // The message may quote what the caller sent.
        let reply = AnswerReply { message: clip(&reply.message), ..reply };
        self.outgoing.event(EventBody::AnswerRejected {
            await_id: AwaitId::new(clip(addressee)),
            status: reply.status,
            message: reply.message.clone(),
            actor: actor.clipped(clip),
        });
        reply
    }

    /// Rejects an answer that makes the next plan too large. A small answer is always accepted, so that a run with large
    /// results can leave its wait.
    fn check_plan_size(&self, resolution: Resolution, body: &AnswerBody) -> Result<Resolution, AnswerReply> {
        if self.fits_inline(body) || self.fits_next_plan(body) {
            return Ok(resolution);
        }
        let why = "this turn's answers are too large in all; shorten this one, or store it and send its resultRef";
        Err(AnswerReply::new(AnswerStatus::Invalid, why))
    }

    /// Decisions of loom-mcp carry no digest. The await's id stands for exactly one set of arguments, so a decision that
    /// names the id is bound by it.
    pub fn digest_shown_by(&self, id: &AwaitId) -> Option<Digest> {
        let item = self.state.awaits.pending().iter().find(|item| item.id == *id)?;
        item.calls.first().map(|call| call.digest)
    }

    fn apply(&mut self, item: &AwaitView, answer: Answer, now: Timestamp) {
        match answer.body {
            AnswerBody::Clarification { answer } if item.kind == AwaitKind::Input => {
                // It was read the same way when it was judged.
                let responses = read_inputs(item, &answer).unwrap_or_default();
                self.resume_calls(item, &responses);
            }
            AnswerBody::Confirmation { .. } if item.kind == AwaitKind::Input => {
                self.resume_calls(item, &respond_to_all(item, InputAction::Decline));
            }
            AnswerBody::Clarification { answer } => self.state.pending_messages.push(Message::user(answer)),
            AnswerBody::Confirmation { approved: true, .. } => {
                for call in &item.calls {
                    self.approve(&call.tool_call_id, now);
                }
            }
            AnswerBody::EditedApproval { arguments, .. } => {
                for call in &item.calls {
                    self.edit_arguments(&call.tool_call_id, &arguments);
                    self.approve(&call.tool_call_id, now);
                }
            }
            ref denial @ AnswerBody::Confirmation { approved: false, .. } => {
                // The model does not see the actor: ids of API keys are not for prompts.
                let why = denial.words().map(|why| format!(": {why}")).unwrap_or_default();
                let error = ToolError::new(ToolErrorKind::Denied, format!("not executed: a person denied it{why}"));
                self.refuse_awaited(item, &error, now);
            }
            AnswerBody::ToolResults { results } => {
                for result in results {
                    let name = item.calls.iter().find(|call| call.tool_call_id == result.tool_call_id);
                    if let Some(name) = name.map(|call| call.name.clone()) {
                        let call = result.tool_call_id.clone();
                        let output = provided(name, result);
                        self.outgoing.event(result_received(&output));
                        self.conclude(&call, output, true, now);
                    }
                }
            }
        }
    }

    /// The call is executed with other arguments, and the model is told which.
    fn edit_arguments(&mut self, call: &CallId, arguments: &CanonicalJson) {
        let Some(slot) = self.state.slot(call) else { return };
        let (name, before) = (slot.request.name.clone(), slot.request.payload_digest);
        let mut edited = ToolRequest::new(call.clone(), name.clone(), &Body::Inline(arguments.clone()));
        (edited.approval, edited.edited) = (slot.request.approval.take(), true);
        slot.request = edited;
        let digest = slot.request.payload_digest;
        let shown = (arguments.bytes() <= EventBody::SHOWN_BYTES).then(|| arguments.clone());
        let event =
            EventBody::ArgumentsEdited { tool_use_id: call.clone(), name: name.clone(), before, digest, input: shown };
        self.outgoing.event(event);
        let mut note = Message::user(format!(
            "A person approved {call} ({name}) with other arguments, and it was executed with these: {arguments}"
        ));
        note.meta.insert(EDIT_MARK.to_owned(), true.into());
        self.state.pending_messages.push(note);
    }

    /// The await's time limit has passed without an answer.
    pub(super) fn expire(&mut self, id: &AwaitId, now: Timestamp) {
        let Some(item) = self.close_await(id, AwaitClosure::Expired, None) else { return };
        if item.on_expiry == ExpiryOutcome::Fail {
            let local = self.timed_out_locally(item.calls.iter().map(|call| &call.name));
            self.fail(local.filter(|_| item.kind == AwaitKind::ExternalTools).unwrap_or_else(|| {
                let message = format!("{} ({}) was not answered in time", item.id, clip(&item.prompt));
                RunFailure::new(RunFailureKind::AwaitExpired, message)
            }));
            return;
        }
        if item.kind == AwaitKind::Input {
            self.resume_calls(&item, &respond_to_all(&item, InputAction::Cancel));
        } else if item.kind == AwaitKind::Clarification {
            let default = item.default_answer.clone().filter(|_| item.on_expiry == ExpiryOutcome::Default);
            let text = default.unwrap_or_else(|| {
                format!(
                    "No answer to the question \"{}\" within the time limit. Continue without it.",
                    clip(&item.prompt)
                )
            });
            self.state.pending_messages.push(Message::user(text));
        } else {
            let error = ToolError::new(ToolErrorKind::Expired, "not executed: no answer within the time limit");
            self.refuse_awaited(&item, &error, now);
        }
        self.settle_if_done(now);
    }

    fn refuse_awaited(&mut self, item: &AwaitView, error: &ToolError, now: Timestamp) {
        for call in &item.calls {
            self.release(&call.tool_call_id);
            self.conclude_without_result(&call.tool_call_id, CallStatus::Refused, error.clone(), now);
        }
    }

    pub(super) fn open_await(&mut self, new: NewAwait, now: Timestamp) -> AwaitId {
        let item = self.state.awaits.open(new, now);
        let id = item.id.clone();
        self.outgoing.event(EventBody::AwaitOpened { item });
        id
    }

    pub(super) fn close_await(
        &mut self,
        id: &AwaitId,
        closure: AwaitClosure,
        answer: Option<(&Answer, Digest)>,
    ) -> Option<AwaitView> {
        let item = self.state.awaits.close(id, closure, answer.map(|(_, digest)| digest))?;
        let answer = answer.map(|(answer, _)| answer);
        self.outgoing.event(EventBody::AwaitClosed {
            await_id: id.clone(),
            outcome: closure,
            actor: answer.map(|answer| answer.actor.clipped(clip)).filter(|actor| !actor.is_empty()),
            answer: answer.and_then(|answer| answer.body.words()).map(shortened),
        });
        Some(item)
    }
}

/// Marks the message that tells the model of edited arguments in its `meta`.
const EDIT_MARK: &str = "editedArguments";

fn provided(name: ToolName, result: ProvidedToolResult) -> ToolCallOutput {
    let mut output = ToolOutput::new(if result.error.is_some() { CallStatus::Failed } else { CallStatus::Ok });
    if let Some(body) = result.body() {
        output = output.with_result(&body);
    }
    output.bounds = result.bounds;
    output.retry_hint = result.retry_hint;
    output.error =
        result.error.map(|error| ToolError { cause: error.cause, ..ToolError::new(error.kind, error.message) });
    ToolCallOutput::from_output(name, result.tool_call_id, output)
}

/// The event for a result that was provided externally.
fn result_received(output: &ToolCallOutput) -> EventBody {
    EventBody::LocalToolResultIn {
        tool_use_id: output.tool_call_id.clone(),
        output: output.shown_result(),
        error: output.error.as_ref().map(|error| error.message.clone()),
        result_bytes: output.result_bytes,
    }
}

/// A user's text, shortened for an event. The transcript has the whole text; a reason is never longer than this.
fn shortened(words: &str) -> String {
    if words.len() <= EventBody::WORDS_BYTES {
        return words.to_owned();
    }
    let end = words.floor_char_boundary(EventBody::WORDS_BYTES - '…'.len_utf8());
    format!("{}…", &words[..end])
}

/// The beginning of a caller's text, for events and messages.
pub(super) fn clip(text: &str) -> String {
    const MAX: usize = 200;
    if text.chars().count() <= MAX { text.to_owned() } else { text.chars().take(MAX - 1).chain(['…']).collect() }
}
