//! Pause, resume, steer and cancel.

use super::{Outcome, Pause, Run, answers::clip};
use crate::{
    envelope::{CallStatus, PauseRequest, ResumeRequest, SteerRequest, ToolError, ToolErrorKind},
    event::EventBody,
    failure::RunFailure,
    ids::RunId,
    limits::USER_TEXT_BYTES,
    message::{Message, Role},
    time::Timestamp,
};

const TOO_MUCH: &str = "too many messages wait for the model's next turn; send this one after it";

impl Run {
    /// No new work starts until a resume. Calls in flight may finish.
    pub fn pause(&mut self, request: PauseRequest, now: Timestamp) {
        if let Err(why) = self.may_interrupt(request.run_id.as_ref()) {
            return self.reject_signal("windlass.pause", &why);
        }
        if self.state.pause.is_some() {
            return self.reject_signal("windlass.pause", "the run is paused already");
        }
        let (reason, requested_by) = (clip(&request.reason), request.requested_by.clipped(clip));
        self.outgoing.event(EventBody::Paused { reason: reason.clone(), requested_by: requested_by.clone() });
        self.state.pause = Some(Pause { reason, requested_by, since: now });
    }

    pub fn resume_from_pause(&mut self, request: ResumeRequest) {
        if let Err(why) = self.check_addressee(request.run_id.as_ref()) {
            return self.reject_signal("windlass.resume", &why);
        }
        if self.state.pause.is_none() {
            return self.reject_signal("windlass.resume", "the run is not paused");
        }
        if request
            .messages
            .iter()
            .any(|message| message.role == Role::Assistant || message.plain_text().len() > USER_TEXT_BYTES)
        {
            return self.reject_signal("windlass.resume", "its messages must be short user or system texts");
        }
        if !request.messages.is_empty() && !self.fits_next_plan(&request.messages) {
            return self.reject_signal("windlass.resume", TOO_MUCH);
        }
        self.state.pause = None;
        self.state
            .pending_messages
            .extend(request.messages.into_iter().map(|message| Message::text(message.role, message.plain_text())));
        let (notes, requested_by) = (clip(&request.notes), request.requested_by.clipped(clip));
        self.outgoing.event(EventBody::Resumed { notes, requested_by });
    }

    /// Adds a user message before the model's next turn.
    pub fn steer(&mut self, request: SteerRequest) {
        if let Err(why) = self.may_interrupt(request.run_id.as_ref()) {
            return self.reject_signal("windlass.steer", &why);
        }
        if request.text.trim().is_empty() || request.text.len() > USER_TEXT_BYTES {
            return self.reject_signal("windlass.steer", "its text must be 1 to 65536 bytes long");
        }
        if !self.fits_next_plan(&request.text) {
            return self.reject_signal("windlass.steer", TOO_MUCH);
        }
        self.outgoing
            .event(EventBody::Steered { text: clip(&request.text), requested_by: request.requested_by.clipped(clip) });
        self.state.pending_messages.push(Message::user(request.text));
    }

    /// Records a signal that changed nothing.
    pub fn reject_signal(&mut self, signal: &str, why: &str) {
        self.outgoing.event(EventBody::SignalRejected { signal: signal.to_owned(), message: clip(why) });
    }

    /// Cancels the run. Calls that have not started never start; calls in flight are being cancelled and still report.
    pub fn cancel(&mut self, reason: &str, now: Timestamp) {
        if self.state.outcome.is_some() {
            return;
        }
        self.state.outcome = Some(Outcome::Cancelled { reason: clip(reason) });
        let error = ToolError::new(ToolErrorKind::Cancelled, "not executed: the run was cancelled");
        self.refuse_unstarted(&error, CallStatus::Cancelled, now);
    }

    /// Ends the run with a failure, unless its outcome is already decided.
    pub fn fail(&mut self, failure: RunFailure) {
        if self.state.outcome.is_none() {
            self.state.outcome = Some(Outcome::Failed { failure });
        }
    }

    fn may_interrupt(&self, addressee: Option<&RunId>) -> Result<(), String> {
        self.check_addressee(addressee)?;
        if self.state.policy.interrupts_allowed {
            Ok(())
        } else {
            Err("this run's policy allows no interrupts".to_owned())
        }
    }

    /// An error if the signal names another run, or if the run has ended.
    pub fn check_addressee(&self, addressee: Option<&RunId>) -> Result<(), String> {
        match addressee {
            Some(run) if !run.is_empty() && *run != self.input.run_id => {
                Err(format!("it is addressed to run {}", clip(run.as_str())))
            }
            _ if self.state.outcome.is_some() => Err("the run has ended".to_owned()),
            _ => Ok(()),
        }
    }
}
