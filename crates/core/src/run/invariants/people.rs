//! What people do to a run, rightly and wrongly, and what they must get for it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Lived,
    ledger::{Heard, Promise},
    tape::{Input, Reply},
    world::World,
};
use crate::{
    awaits::{AwaitKind, AwaitView},
    canonical::Digest,
    envelope::{
        Answer, AnswerBody, AnswerStatus, PauseRequest, ProvidedToolResult, ResumeRequest, SteerRequest, ToolError,
        ToolErrorKind,
    },
    ids::{AwaitId, RunId},
    message::Message,
    run::answers::clip,
    time::{Millis, Timestamp},
};

/// Something somebody does, some time after the deed before.
#[derive(Debug, Clone)]
pub(super) struct Deed {
    after: Millis,
    act: Act,
}

/// What somebody does who is asked, some time after the question or the reaction before.
#[derive(Debug, Clone)]
pub(super) struct Reaction {
    after: Millis,
    pick: u8,
    how: How,
}

#[derive(Debug, Clone)]
enum Act {
    Answer { pick: u8, how: How, elsewhere: bool },
    Pause { elsewhere: bool },
    Resume { elsewhere: bool, says: bool },
    Steer { elsewhere: bool, text: Steer },
    Noise,
    Cancel(CancelledPlan),
    Crash { carry: bool },
    Redeliver { pick: u8 },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Right,
    Denied,
    /// A decision of the seed, bound by the await's id.
    Seed,
    /// An answer that was accepted before.
    Again,
    UnknownId,
    WrongDigest,
    NoDigest,
    Nobody,
    WrongKind,
    Garbage,
}

#[derive(Debug, Clone, Copy)]
enum Steer {
    Words,
    Nothing,
    TooMuch,
}

/// What becomes of a plan that is under way when its run is cancelled.
#[derive(Debug, Clone, Copy)]
pub(super) enum CancelledPlan {
    Answers,
    Fails { written: bool },
}

pub(super) fn reaction() -> impl Strategy<Value = Reaction> {
    let after = prop_oneof![4 => 0..1_500_u64, 1 => 0..60_000_u64];
    (after, any::<u8>(), how()).prop_map(|(after, pick, how)| Reaction { after: Millis(after), pick, how })
}

fn how() -> impl Strategy<Value = How> {
    let faults =
        [How::Again, How::UnknownId, How::WrongDigest, How::NoDigest, How::Nobody, How::WrongKind, How::Garbage];
    prop_oneof![
        5 => Just(How::Right),
        2 => Just(How::Denied),
        1 => Just(How::Seed),
        4 => prop::sample::select(faults.as_slice().to_vec()),
    ]
}

pub(super) fn deed() -> impl Strategy<Value = Deed> {
    let after = prop_oneof![6 => 0..1_500_u64, 2 => 0..20_000_u64, 1 => 3_600_000..2_000_000_000_u64];
    let elsewhere = || prop::bool::weighted(0.1);
    let plan =
        prop_oneof![Just(CancelledPlan::Answers), any::<bool>().prop_map(|written| CancelledPlan::Fails { written })];
    let act = prop_oneof![
        4 => (any::<u8>(), how(), elsewhere()).prop_map(|(pick, how, elsewhere)| Act::Answer { pick, how, elsewhere }),
        2 => elsewhere().prop_map(|elsewhere| Act::Pause { elsewhere }),
        2 => (elsewhere(), any::<bool>()).prop_map(|(elsewhere, says)| Act::Resume { elsewhere, says }),
        4 => (elsewhere(), prop_oneof![8 => Just(Steer::Words), 1 => Just(Steer::Nothing), 1 => Just(Steer::TooMuch)])
            .prop_map(|(elsewhere, text)| Act::Steer { elsewhere, text }),
        1 => Just(Act::Noise),
        1 => plan.prop_map(Act::Cancel),
        5 => any::<bool>().prop_map(|carry| Act::Crash { carry }),
        2 => any::<u8>().prop_map(|pick| Act::Redeliver { pick }),
    ];
    (after, act).prop_map(|(after, act)| Deed { after: Millis(after), act })
}

impl World {
    pub(super) fn next_deed_at(&self) -> Option<Timestamp> {
        [self.next_act_at(), self.next_reaction_at()].into_iter().flatten().min()
    }

    fn next_act_at(&self) -> Option<Timestamp> {
        self.deeds.front().map(|deed| self.last_deed.after(deed.after))
    }

    /// People react while something is asked.
    fn next_reaction_at(&self) -> Option<Timestamp> {
        let asked = self.run.state().awaits.pending().first()?.opened_at;
        self.reactions.front().map(|reaction| self.last_reaction.max(asked).after(reaction.after))
    }

    /// Whether the next deed is a cancellation, and how a plan takes it.
    pub(super) fn cancels_next(&self) -> Option<CancelledPlan> {
        // Nothing is asked while a plan is under way, so there are no reactions.
        match self.deeds.front()?.act {
            Act::Cancel(plan) => Some(plan),
            _ => None,
        }
    }

    pub(super) fn deeds_until(&mut self, until: Timestamp) -> Lived {
        while self.next_deed_at().is_some_and(|at| at <= until) {
            self.next_deed()?;
        }
        Ok(())
    }

    pub(super) fn next_deed(&mut self) -> Lived {
        let Some(at) = self.next_deed_at() else { return Ok(()) };
        self.advance(at);
        self.history += 1;
        if self.next_reaction_at() == Some(at) {
            self.last_reaction = at;
            let Some(Reaction { pick, how, .. }) = self.reactions.pop_front() else { return Ok(()) };
            return self.give_answer(pick, how, false);
        }
        self.last_deed = at;
        let Some(deed) = self.deeds.pop_front() else { return Ok(()) };
        match deed.act {
            Act::Answer { pick, how, elsewhere } => self.give_answer(pick, how, elsewhere),
            Act::Pause { elsewhere } => self.give_pause(elsewhere),
            Act::Resume { elsewhere, says } => self.give_resume(elsewhere, says),
            Act::Steer { elsewhere, text } => self.give_steer(elsewhere, text),
            Act::Noise => self.give(Input::Noise, "noise", false).map(|_| ()),
            Act::Cancel(_) => {
                self.cancelled = true;
                Ok(())
            }
            Act::Crash { carry } if carry && !self.run.state().is_working() && self.parting.is_none() => {
                self.carry_over()
            }
            Act::Crash { .. } => self.crash(),
            Act::Redeliver { pick } => self.store.redeliver(pick),
        }
    }

    /// Nothing else will happen: somebody does what the run waits for.
    pub(super) fn help(&mut self) -> Lived {
        if self.run.state().pause.is_some() {
            return self.give_resume(false, false);
        }
        if self.run.state().awaits.is_empty() {
            return Err(format!("nothing can happen any more: {:?}", self.run.state()));
        }
        self.give_answer(0, How::Right, false)
    }

    fn unique(&mut self, word: &str) -> String {
        self.words += 1;
        format!("{word} {}", self.words)
    }

    fn addressee(&self, elsewhere: bool) -> Option<RunId> {
        elsewhere.then(|| RunId::new("another-run"))
    }

    /// Whether a signal that is itself in order is obeyed.
    fn obeys(&self, elsewhere: bool) -> bool {
        !elsewhere && self.run.state().outcome.is_none()
    }

    fn give_pause(&mut self, elsewhere: bool) -> Lived {
        let (run_id, state) = (self.addressee(elsewhere), self.run.state());
        let welcome = self.obeys(elsewhere) && state.policy.interrupts_allowed && state.pause.is_none();
        self.give(Input::Pause(PauseRequest { run_id, ..PauseRequest::default() }), "pause", welcome)?;
        Ok(())
    }

    fn give_resume(&mut self, elsewhere: bool, says: bool) -> Lived {
        let run_id = self.addressee(elsewhere);
        let text = self.unique("resume");
        let messages = if says { vec![Message::user(text.clone())] } else { Vec::new() };
        let welcome = self.obeys(elsewhere) && self.run.state().pause.is_some();
        let request = ResumeRequest { run_id, messages, ..ResumeRequest::default() };
        if self.give(Input::Resume(request), "resume", welcome)? && says {
            self.owe(text);
        }
        Ok(())
    }

    fn give_steer(&mut self, elsewhere: bool, steer: Steer) -> Lived {
        let run_id = self.addressee(elsewhere);
        let text = match steer {
            Steer::Words => self.unique("steer"),
            Steer::Nothing => " \n".to_owned(),
            Steer::TooMuch => "x".repeat(70_000),
        };
        let welcome =
            self.obeys(elsewhere) && self.run.state().policy.interrupts_allowed && matches!(steer, Steer::Words);
        let request = SteerRequest { run_id, text: text.clone(), ..SteerRequest::default() };
        if self.give(Input::Steer(request), "steer", welcome)? {
            self.owe(text);
        }
        Ok(())
    }

    fn owe(&mut self, text: String) {
        self.ledger.owed.push(text.clone());
        self.ledger.promises.push(Promise::Text(text));
    }

    /// Says something to the run; whether it was taken shows in its state.
    fn give(&mut self, input: Input, what: &str, welcome: bool) -> Lived<bool> {
        self.feed(input)?;
        let (before, after) = self.tape.last_digests();
        self.ledger.heard.push(Heard {
            what: what.to_owned(),
            welcome,
            accepted: before != after,
            status: None,
            due_status: None,
            before,
            after,
            too_late: self.parting.is_some(),
            approves: None,
        });
        Ok(before != after)
    }

    fn give_answer(&mut self, pick: u8, how: How, elsewhere: bool) -> Lived {
        let pick = usize::from(pick);
        let pending = self.run.state().awaits.pending();
        let item = (!pending.is_empty()).then(|| pending[pick % pending.len()].clone());
        let again = (!self.answered.is_empty()).then(|| self.answered[pick % self.answered.len()].clone());
        let open = item.as_ref().is_some_and(|item| item.expires_at.is_none_or(|at| at > self.now));
        let (answer, fits) = match (how, item.clone(), again) {
            (How::Again, _, Some(answer)) => (answer, false),
            (How::UnknownId, ..) | (_, None, None) => {
                let body = AnswerBody::Clarification { answer: "hello?".to_owned() };
                let digits = if pick % 4 == 0 { 4_000 } else { 4 };
                (Answer::new(AwaitId::new(format!("await-{}", "7".repeat(digits))), "ann", body), false)
            }
            // Nothing is open: somebody answers what was answered before, with something else.
            (_, None, Some(answer)) => {
                let body = AnswerBody::Clarification { answer: self.unique("late") };
                (Answer { body, ..answer }, false)
            }
            (how, Some(item), _) => self.answer_to(&item, how),
        };
        let ended = self.run.state().outcome.is_some();
        let due_status = match how {
            _ if elsewhere => None,
            _ if ended => Some(AnswerStatus::Stale),
            _ if answer.await_id.as_str().starts_with("await-7777") => Some(AnswerStatus::Unknown),
            How::Again if self.answered.contains(&answer) => Some(AnswerStatus::Duplicate),
            _ if item.is_none() => Some(AnswerStatus::Stale),
            _ if !open => Some(AnswerStatus::Expired),
            _ if fits => Some(AnswerStatus::Accepted),
            _ => Some(AnswerStatus::Invalid),
        };
        let to = self.addressee(elsewhere);
        let reply = self.feed(Input::Answer { to, answer: Box::new(answer.clone()) })?;
        let status = if let Reply::Answered(reply) = &reply { Some(reply.status) } else { None };
        let accepted = status == Some(AnswerStatus::Accepted);
        let approves = item.clone().filter(|_| accepted).and_then(|item| approved(&item, &answer));
        let (before, after) = self.tape.last_digests();
        self.ledger.heard.push(Heard {
            what: clip(answer.await_id.as_str()),
            welcome: due_status == Some(AnswerStatus::Accepted),
            accepted,
            status,
            due_status,
            before,
            after,
            too_late: self.parting.is_some(),
            approves,
        });
        if let Some(item) = item.filter(|_| accepted) {
            self.promise(&item, &answer);
            self.answered.push(answer);
        }
        Ok(())
    }

    /// An answer to an open await, and whether it fits.
    fn answer_to(&mut self, item: &AwaitView, how: How) -> (Answer, bool) {
        let id = item.id.clone();
        let shown = item.calls.first().map(|call| call.digest);
        let other = AnswerBody::Clarification { answer: String::new() };
        let confirmation = |approved, digest| AnswerBody::Confirmation { approved, digest };
        let (body, actor, fits) = match (item.kind, how) {
            (AwaitKind::Confirmation, How::Right) => (confirmation(true, shown), "ann", true),
            (AwaitKind::Confirmation, How::Denied) => (confirmation(false, None), "ann", true),
            (AwaitKind::Confirmation, How::Seed) => (confirmation(true, self.run.digest_shown_by(&id)), "ann", true),
            (AwaitKind::Confirmation, How::WrongDigest) => {
                (confirmation(true, Some(Digest::of_json(&json!("other")))), "ann", false)
            }
            (AwaitKind::Confirmation, How::NoDigest) => (confirmation(true, None), "ann", false),
            (AwaitKind::Confirmation, How::Nobody) => (confirmation(true, shown), " ", false),
            (AwaitKind::Confirmation, _) => (other, "ann", false),
            (AwaitKind::Clarification, How::Right | How::Denied | How::Seed | How::Nobody) => {
                (AnswerBody::Clarification { answer: self.unique("answer") }, "", true)
            }
            (AwaitKind::Clarification, How::WrongKind) => (confirmation(true, None), "ann", false),
            (AwaitKind::Clarification, _) => (other, "ann", false),
            (_, How::Right | How::Denied | How::Seed | How::Nobody) => {
                (AnswerBody::ToolResults { results: self.results(item, how) }, "", true)
            }
            (_, How::WrongKind) => (confirmation(true, shown), "ann", false),
            (_, _) => {
                let mut results = self.results(item, How::Right);
                results.push(provided("call-x".into(), Some(json!(1)), None));
                (AnswerBody::ToolResults { results }, "ann", false)
            }
        };
        (Answer::new(id, actor, body), fits)
    }

    /// One result for each call: a value, nothing, a stored body, or errors, one of which uses a word of the caps.
    fn results(&mut self, item: &AwaitView, how: How) -> Vec<ProvidedToolResult> {
        let mut results = Vec::new();
        for call in &item.calls {
            let id = call.tool_call_id.clone();
            let text = self.unique("result");
            results.push(match how {
                How::Denied => provided(id, None, Some(ToolError::new(ToolErrorKind::ToolCap, text))),
                How::Seed => provided(id, Some(Value::Null), None),
                How::Nobody => {
                    let stored = self.store.put(json!({"long": text}));
                    ProvidedToolResult { result_ref: Some(stored), ..provided(id, None, None) }
                }
                _ => provided(id, Some(json!({"said": text, "at length": "x".repeat(300)})), None),
            });
        }
        results
    }

    fn promise(&mut self, item: &AwaitView, answer: &Answer) {
        match &answer.body {
            AnswerBody::Clarification { answer } => self.owe(answer.clone()),
            AnswerBody::Confirmation { approved, .. } => {
                let calls = item.calls.iter().map(|call| call.tool_call_id.clone());
                let promise = if *approved { Promise::Approved } else { Promise::Denied };
                self.ledger.promises.extend(calls.map(promise));
            }
            AnswerBody::ToolResults { results } => {
                for result in results {
                    let content = match (&result.error, result.result_ref) {
                        (Some(error), _) => json!({"error": error.message, "kind": error.kind}),
                        (None, Some(stored)) => self.store.body(stored.digest),
                        (None, None) => result.result.clone().unwrap_or_default(),
                    };
                    let (call, is_error) = (result.tool_call_id.clone(), result.error.is_some());
                    self.ledger.promises.push(Promise::Result { call, content, is_error });
                }
            }
        }
    }
}

fn approved(item: &AwaitView, answer: &Answer) -> Option<(crate::ids::CallId, Digest)> {
    match answer.body {
        AnswerBody::Confirmation { approved: true, digest } => {
            item.calls.first().map(|call| (call.tool_call_id.clone(), digest.unwrap_or_default()))
        }
        _ => None,
    }
}

fn provided(tool_call_id: crate::ids::CallId, result: Option<Value>, error: Option<ToolError>) -> ProvidedToolResult {
    ProvidedToolResult { name: None, tool_call_id, result, result_ref: None, bounds: None, error, retry_hint: None }
}
