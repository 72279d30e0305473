//! The inputs of a run as a history keeps them, with what the run said and knew after each: enough to live it again.

use std::rc::Rc;

use super::{Lived, ensure};
use crate::{
    canonical::Digest,
    envelope::{
        Answer, AnswerReply, CallAnswer, OpenOutput, PauseRequest, PlanActivityOutput, RecordInput, ResumeRequest,
        RunInput, SteerRequest, ToolOutput, TranscriptHead,
    },
    event::EventBody,
    ids::{CallId, RunId},
    run::{ChildReport, Order, PlanFailure, PlanOrder, Run, RunEnding, RunState, Step},
    time::Timestamp,
};

/// Something that happens to a run.
#[derive(Debug, Clone)]
pub(super) enum Input {
    /// The head of the loop: time acts, then the run says what is next.
    Look {
        history: u32,
    },
    HandOut,
    /// The status changed: the loop says so in the log.
    Show,
    BeginPlan,
    PlanSucceeded(Box<PlanActivityOutput>),
    PlanFailed(PlanFailure),
    Dispatch,
    ToolFinished {
        call: CallId,
        output: Box<ToolOutput>,
        recorded: bool,
    },
    ChildFinished {
        call: CallId,
        report: ChildReport,
    },
    Answer {
        to: Option<RunId>,
        answer: Box<Answer>,
    },
    AnswerCall(Box<CallAnswer>),
    Pause(PauseRequest),
    Resume(ResumeRequest),
    Steer(SteerRequest),
    /// A signal whose payload does not decode.
    Noise,
    Cancel,
    Record,
    Recorded(TranscriptHead),
    ContinueAsNew,
    End,
}

/// What the run says to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply {
    Nothing,
    Step(Step),
    Plan(Box<PlanOrder>),
    Orders(Vec<Order>),
    Answered(AnswerReply),
    Record(Option<Box<RecordInput>>),
    Ending(Box<RunEnding>),
}

#[derive(Debug)]
struct Entry {
    now: Timestamp,
    input: Input,
    reply: Reply,
    after: Rc<Known>,
}

/// A state and its digest; inputs that change nothing share one.
#[derive(Debug)]
struct Known {
    state: RunState,
    digest: Digest,
}

#[derive(Debug)]
pub(super) struct Tape {
    input: RunInput,
    opened: OpenOutput,
    /// As it was opened.
    first: Rc<Known>,
    entries: Vec<Entry>,
}

impl Input {
    fn apply(&self, run: &mut Run, now: Timestamp) -> Reply {
        match self.clone() {
            Self::Look { history } => {
                run.tick(now);
                return Reply::Step(run.next(history));
            }
            Self::HandOut => run.hand_out_due(now),
            Self::Show => {
                let (status, phase) = (run.status(), run.phase());
                run.outgoing().event(EventBody::Status { status, phase });
            }
            Self::BeginPlan => return Reply::Plan(Box::new(run.begin_plan(now))),
            Self::PlanSucceeded(output) => {
                let stop = run.turn_outcome(&output);
                run.plan_succeeded(*output, stop, now);
            }
            Self::PlanFailed(failure) => run.plan_failed(failure, now),
            Self::Dispatch => return Reply::Orders(run.dispatch(now)),
            Self::ToolFinished { call, output, recorded } => run.tool_finished(&call, *output, recorded, now),
            Self::ChildFinished { call, report } => run.child_finished(&call, report, now),
            Self::Answer { to, answer } => match run.check_addressee(to.as_ref()) {
                Ok(()) => return Reply::Answered(run.answer(*answer, now)),
                Err(why) => run.reject_signal("answer", &why),
            },
            Self::AnswerCall(answer) => return Reply::Answered(run.answer_call(*answer, now)),
            Self::Pause(request) => run.pause(request, now),
            Self::Resume(request) => run.resume_from_pause(request),
            Self::Steer(request) => run.steer(request),
            Self::Noise => run.reject_signal("noise", "its payload is not JSON"),
            Self::Cancel => run.cancel("enough", now),
            Self::Record => {
                let input = (!run.outgoing().is_empty()).then(|| Box::new(run.record_input()));
                return Reply::Record(input);
            }
            Self::Recorded(head) => run.recorded(head),
            Self::ContinueAsNew => *run = Run::resume(wired(&run.continue_as_new())).unwrap(),
            Self::End => return Reply::Ending(Box::new(run.end(now))),
        }
        Reply::Nothing
    }
}

impl Tape {
    pub(super) fn start(input: RunInput, opened: OpenOutput) -> Lived<(Self, Run)> {
        let (input, opened): (RunInput, OpenOutput) = (wired(&input), wired(&opened));
        let run = Run::open(input.clone(), opened.clone());
        let first = Rc::new(Known::of(run.state())?);
        Ok((Self { input, opened, first, entries: Vec::new() }, run))
    }

    /// Gives the run an input and writes down what follows.
    pub(super) fn feed(&mut self, run: &mut Run, input: Input, now: Timestamp) -> Lived<Reply> {
        let reply = input.apply(run, now);
        let before = self.entries.last().map_or(&self.first, |entry| &entry.after);
        let after = if before.state == *run.state() { before.clone() } else { Rc::new(Known::of(run.state())?) };
        self.entries.push(Entry { now, input, reply: reply.clone(), after });
        Ok(reply)
    }

    /// The digests before and after the last input.
    pub(super) fn last_digests(&self) -> (Digest, Digest) {
        let mut digests = self.entries.iter().rev().map(|entry| entry.after.digest).chain([self.first.digest]);
        let after = digests.next().unwrap_or_default();
        (digests.next().unwrap_or(after), after)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Lives the whole history again; every reply and every state must come out the same.
    pub(super) fn replay(&self) -> Lived<Run> {
        let mut run = Run::open(self.input.clone(), self.opened.clone());
        for (index, entry) in self.entries.iter().enumerate() {
            let reply = entry.input.apply(&mut run, entry.now);
            ensure!(reply == entry.reply, "replay of {index} {:?} said {reply:?}, not {:?}", entry.input, entry.reply);
            ensure!(*run.state() == entry.after.state, "replay of {index} {:?} left another state", entry.input);
        }
        let digest = self.entries.last().map_or(self.first.digest, |entry| entry.after.digest);
        ensure!(run.digest() == digest, "the replayed run has another digest");
        Ok(run)
    }
}

impl Known {
    /// What is known of a state, which must be the same after a trip through JSON.
    fn of(state: &RunState) -> Lived<Self> {
        let value = serde_json::to_value(state).unwrap();
        let again: RunState =
            serde_json::from_str(&value.to_string()).map_err(|error| format!("the state: {error}"))?;
        ensure!(again == *state, "the state does not survive JSON: {value}");
        Ok(Self { state: again, digest: Digest::of_json(&value) })
    }
}

/// A value as it arrives at the other side of a boundary.
pub(super) fn wired<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}
