//! Answers to what a run asks: right ones, and every way to get one wrong.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Lived,
    ledger::{Heard, Promise},
    tape::{Input, Reply},
    world::World,
};
use crate::{
    awaits::{AwaitKind, AwaitView, AwaitedCall},
    canonical::{CanonicalJson, Digest},
    envelope::{Answer, AnswerBody, AnswerStatus, CallAnswer, ProvidedToolResult, ToolError, ToolErrorKind},
    ids::{AwaitId, CallId},
    run::answers::clip,
    time::Millis,
};

/// A call that no model ever asks for.
const UNKNOWN_CALL: &str = "call-x";

/// A reaction to a question, some time after the question or the previous reaction.
#[derive(Debug, Clone)]
pub(super) struct Reaction {
    /// `None`: at the very moment the time runs out.
    pub(super) after: Option<Millis>,
    pub(super) pick: u8,
    pub(super) how: How,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum How {
    Right,
    Denied,
    /// A decision of loom-mcp, bound by the await's id.
    LoomMcp,
    /// An answer that was accepted before.
    Again,
    UnknownId,
    WrongDigest,
    NoDigest,
    NoActor,
    WrongKind,
    Garbage,
}

pub(super) fn reaction() -> impl Strategy<Value = Reaction> {
    let after = prop_oneof![4 => 0..1_500_u64, 1 => 0..60_000_u64].prop_map(Millis);
    (prop::option::weighted(0.85, after), any::<u8>(), how()).prop_map(|(after, pick, how)| Reaction {
        after,
        pick,
        how,
    })
}

pub(super) fn how() -> impl Strategy<Value = How> {
    let faults =
        [How::Again, How::UnknownId, How::WrongDigest, How::NoDigest, How::NoActor, How::WrongKind, How::Garbage];
    prop_oneof![
        5 => Just(How::Right),
        2 => Just(How::Denied),
        1 => Just(How::LoomMcp),
        4 => prop::sample::select(faults.to_vec()),
    ]
}

impl World {
    pub(super) fn give_answer(&mut self, pick: u8, how: How, elsewhere: bool) -> Lived {
        let pick = usize::from(pick);
        let pending = self.run.state().awaits.pending();
        let item = (!pending.is_empty()).then(|| pending[pick % pending.len()].clone());
        let again = (!self.answered.is_empty()).then(|| self.answered[pick % self.answered.len()].clone());
        let open = item.as_ref().is_some_and(|item| item.expires_at.is_none_or(|at| at > self.now));
        let (answer, fits) = match (how, item.clone(), again) {
            (How::Again, _, Some(answer)) => (answer, false),
            (How::UnknownId, ..) | (_, None, None) => {
                let body = AnswerBody::Clarification { answer: "hello?".to_owned() };
                let digits = if pick % 4 == 0 { 20_000 } else { 4 };
                (Answer::new(AwaitId::new(format!("await-{}", "7".repeat(digits))), "ann", body), false)
            }
            // Nothing is open: a closed await gets another answer.
            (_, None, Some(answer)) => {
                let body = AnswerBody::Clarification { answer: self.unique("late") };
                (Answer { body, ..answer }, false)
            }
            (how, Some(item), _) => self.answer_to(&item, how),
        };
        let by_call = by_call(&answer).filter(|_| pick % 2 == 1 && !elsewhere);
        let unknown_call = by_call.as_ref().is_some_and(|call| call.result.tool_call_id.as_str() == UNKNOWN_CALL);
        let ended = self.run.state().outcome.is_some();
        let due_status = match how {
            _ if elsewhere => None,
            _ if ended => Some(AnswerStatus::Stale),
            _ if unknown_call || answer.await_id.as_str().starts_with("await-7777") => Some(AnswerStatus::Unknown),
            How::Again if self.answered.contains(&answer) => Some(AnswerStatus::Duplicate),
            _ if item.is_none() => Some(AnswerStatus::Stale),
            _ if !open => Some(AnswerStatus::Expired),
            _ if fits => Some(AnswerStatus::Accepted),
            _ => Some(AnswerStatus::Invalid),
        };
        // Where no await is looked for or found, the refusal names the call.
        let what = match &by_call {
            Some(call) if ended || unknown_call => call.result.tool_call_id.to_string(),
            _ => clip(answer.await_id.as_str()),
        };
        let input = match by_call {
            Some(call) => Input::AnswerCall(Box::new(call)),
            None => Input::Answer { to: self.addressee(elsewhere), answer: Box::new(answer.clone()) },
        };
        let reply = self.feed(input)?;
        let status = if let Reply::Answered(reply) = &reply { Some(reply.status) } else { None };
        let accepted = status == Some(AnswerStatus::Accepted);
        let approves = item.clone().filter(|_| accepted).and_then(|item| approved(&item, &answer));
        let (before, after) = self.tape.last_digests();
        self.ledger.heard.push(Heard {
            what,
            welcome: due_status == Some(AnswerStatus::Accepted),
            accepted,
            status,
            due_status,
            before,
            after,
            too_late: self.ending.is_some(),
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
        let confirmation = |approved, digest| AnswerBody::Confirmation { approved, digest, reason: None, grant: None };
        let (body, actor, fits) = match (item.kind, how) {
            (AwaitKind::Confirmation, How::Right) => (confirmation(true, shown), "ann", true),
            (AwaitKind::Confirmation, How::Denied) => (confirmation(false, None), "ann", true),
            (AwaitKind::Confirmation, How::LoomMcp) => (confirmation(true, self.run.digest_shown_by(&id)), "ann", true),
            (AwaitKind::Confirmation, How::WrongDigest) => {
                (confirmation(true, Some(Digest::of_json(&json!("other")))), "ann", false)
            }
            (AwaitKind::Confirmation, How::NoDigest) => (confirmation(true, None), "ann", false),
            (AwaitKind::Confirmation, How::NoActor) => (confirmation(true, shown), " ", false),
            (AwaitKind::Confirmation, _) => (other, "ann", false),
            (AwaitKind::Clarification, How::Right | How::Denied | How::LoomMcp | How::NoActor) => {
                (AnswerBody::Clarification { answer: self.unique("answer") }, "", true)
            }
            (AwaitKind::Clarification, How::WrongKind) => (confirmation(true, None), "ann", false),
            (AwaitKind::Clarification, _) => (other, "ann", false),
            (AwaitKind::Input, How::Denied) => (confirmation(false, None), "ann", true),
            (AwaitKind::Input, How::Right | How::LoomMcp | How::NoActor) => {
                (AnswerBody::Clarification { answer: self.unique("input") }, "", true)
            }
            (AwaitKind::Input, How::WrongKind) => (confirmation(true, shown), "ann", false),
            (AwaitKind::Input, _) => (other, "ann", false),
            (_, How::Right | How::Denied | How::LoomMcp | How::NoActor) => {
                (AnswerBody::ToolResults { results: self.results(item, how) }, "", true)
            }
            (_, How::WrongKind) => (confirmation(true, shown), "ann", false),
            (_, _) => {
                let mut results = self.results(item, How::Right);
                results.push(provided(UNKNOWN_CALL.into(), Some(json!(1)), None));
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
                How::LoomMcp => provided(id, Some(Value::Null), None),
                How::NoActor => {
                    let stored = self.store.put(json!({"long": text}).into());
                    ProvidedToolResult { result_ref: Some(stored), ..provided(id, None, None) }
                }
                _ => provided(id, Some(json!({"said": text, "at length": "x".repeat(300)})), None),
            });
        }
        results
    }

    fn promise(&mut self, item: &AwaitView, answer: &Answer) {
        match &answer.body {
            AnswerBody::Clarification { answer } if item.kind == AwaitKind::Input => {
                let promise =
                    |call: &AwaitedCall| Promise::Input { call: call.tool_call_id.clone(), text: answer.clone() };
                self.ledger.promises.extend(item.calls.iter().map(promise));
            }
            AnswerBody::Confirmation { .. } if item.kind == AwaitKind::Input => {}
            AnswerBody::EditedApproval { .. } => {}
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
                        (None, Some(stored)) => self.store.body(stored.digest).to_value(),
                        (None, None) => result.result.as_ref().map(CanonicalJson::to_value).unwrap_or_default(),
                    };
                    let (call, is_error) = (result.tool_call_id.clone(), result.error.is_some());
                    self.ledger.promises.push(Promise::Result { call, content, is_error });
                }
            }
        }
    }
}

/// The same answer, addressed by the call it is about.
fn by_call(answer: &Answer) -> Option<CallAnswer> {
    match &answer.body {
        AnswerBody::ToolResults { results } if results.len() == 1 => {
            Some(CallAnswer::new(answer.actor.clone(), results[0].clone()))
        }
        _ => None,
    }
}

fn approved(item: &AwaitView, answer: &Answer) -> Option<(CallId, Digest)> {
    match answer.body {
        AnswerBody::Confirmation { approved: true, digest, .. } => {
            item.calls.first().map(|call| (call.tool_call_id.clone(), digest.unwrap_or_default()))
        }
        _ => None,
    }
}

fn provided(tool_call_id: CallId, result: Option<Value>, error: Option<ToolError>) -> ProvidedToolResult {
    let result = result.map(CanonicalJson::from);
    ProvidedToolResult { name: None, tool_call_id, result, result_ref: None, bounds: None, error, retry_hint: None }
}
