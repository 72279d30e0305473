//! Validation of answers. It only reads the table: an answer that is not accepted changes nothing.

use std::collections::BTreeSet;

use super::{AwaitKind, AwaitTable, AwaitView};
use crate::{
    approval::{ApproverBar, approver_bar},
    canonical::{CanonicalJson, Digest},
    envelope::{Actor, Answer, AnswerBody, AnswerReply, AnswerStatus, ProvidedToolResult},
    event::{AwaitClosure, EventBody},
    ids::AwaitId,
    limits::USER_TEXT_BYTES,
    run::read_inputs,
    time::Timestamp,
};

/// The largest result that may come inline; larger ones go through the store.
const MAX_INLINE_RESULT: u64 = 256 * 1024;
/// A reason is stored unshortened in the history and in the log.
const MAX_REASON: usize = EventBody::WORDS_BYTES;
/// JSON parsers stop at 128 levels, and a result is nested inside other envelopes.
const MAX_DEPTH: usize = 64;

/// An answer that fits an open await.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    pub closure: AwaitClosure,
    /// Identifies this answer if it is sent again.
    pub answer_digest: Digest,
}

impl AwaitTable {
    /// The resolution of the await, or the reply that says why the answer does not close it.
    pub fn judge(
        &self,
        answer: &Answer,
        started_by: Option<&Actor>,
        now: Timestamp,
    ) -> Result<Resolution, AnswerReply> {
        let id = &answer.await_id;
        // An envelope built from JSON always serialises; a zero digest would only make duplicates look stale.
        let answer_digest = Digest::of(&answer.body).unwrap_or_default();
        let Some(item) = self.find(id) else {
            return Err(self.explain_absence(answer, answer_digest));
        };
        if item.expires_at.is_some_and(|at| at <= now) {
            return Err(reply(AnswerStatus::Expired, format!("{id} expired before this answer came")));
        }
        let closure = fits(item, answer, started_by).map_err(|message| reply(AnswerStatus::Invalid, message))?;
        Ok(Resolution { closure, answer_digest })
    }

    /// The await that a result addressed by its call answers, or why there is none.
    pub fn of_call(&self, result: &ProvidedToolResult) -> Result<AwaitId, AnswerReply> {
        let call = &result.tool_call_id;
        match (self.find_by_call(call), self.find_closed_by_call(call)) {
            (Some(item), _) if item.calls.len() == 1 => Ok(item.id.clone()),
            (Some(item), _) => {
                let message = format!("{} wants the results of all its calls at once; answer it by its id", item.id);
                Err(reply(AnswerStatus::Invalid, message))
            }
            // The answer is compared with the one that closed the await.
            (None, Some(closed)) => Ok(closed.id.clone()),
            (None, None) => Err(reply(AnswerStatus::Unknown, format!("the run waits for no result of call {call}"))),
        }
    }

    fn explain_absence(&self, answer: &Answer, digest: Digest) -> AnswerReply {
        let id = &answer.await_id;
        match self.find_closed(id) {
            Some(closed) if closed.closure == AwaitClosure::Expired => {
                reply(AnswerStatus::Expired, format!("{id} expired before this answer came"))
            }
            Some(closed) if closed.answer == Some(digest) => {
                reply(AnswerStatus::Duplicate, format!("{id} was already given this answer"))
            }
            Some(_) => reply(AnswerStatus::Stale, format!("{id} is closed; list the run's pending awaits")),
            None if self.was_issued(id) => {
                reply(AnswerStatus::Stale, format!("{id} is closed; list the run's pending awaits"))
            }
            None => reply(AnswerStatus::Unknown, format!("this run has no await {id}; list its pending awaits")),
        }
    }
}

fn reply(status: AnswerStatus, message: String) -> AnswerReply {
    AnswerReply::new(status, message)
}

fn fits(item: &AwaitView, answer: &Answer, started_by: Option<&Actor>) -> Result<AwaitClosure, String> {
    match (item.kind, &answer.body) {
        (AwaitKind::Clarification | AwaitKind::Input, AnswerBody::Clarification { answer }) => {
            if answer.trim().is_empty() {
                return Err("the answer is empty".to_owned());
            }
            if answer.len() > USER_TEXT_BYTES {
                return Err(format!("the answer is longer than {USER_TEXT_BYTES} bytes"));
            }
            if item.kind == AwaitKind::Input {
                read_inputs(item, answer)?;
            }
            Ok(AwaitClosure::Answered)
        }
        (AwaitKind::Input, AnswerBody::Confirmation { approved: false, .. }) => Ok(AwaitClosure::Denied),
        (AwaitKind::Confirmation, AnswerBody::Confirmation { approved, digest, reason, grant }) => {
            if answer.actor.is_empty() {
                return Err("a decision must say who decides".to_owned());
            }
            if reason.as_ref().is_some_and(|reason| reason.len() > MAX_REASON) {
                return Err(format!("the reason is longer than {MAX_REASON} bytes; shorten it"));
            }
            // The starter may deny what only a second person may approve.
            if let Some(bar) = approver_bar(&item.roles, item.four_eyes && *approved, &answer.actor, started_by) {
                return Err(barred(bar, &item.roles));
            }
            if !approved {
                let refused = grant.as_ref().map(|_| "a denial grants nothing; leave out the grant".to_owned());
                return refused.map_or(Ok(AwaitClosure::Denied), Err);
            }
            let shown = item.calls.first().map(|call| call.digest);
            match digest {
                Some(digest) if Some(*digest) == shown => Ok(AwaitClosure::Approved),
                Some(_) => {
                    Err("the digest is not that of the arguments awaiting approval; look at them again".to_owned())
                }
                None => Err("an approval must carry the digest of the arguments it approves".to_owned()),
            }
        }
        (AwaitKind::Confirmation, AnswerBody::EditedApproval { digest, arguments, reason }) => {
            if !item.edit {
                return Err("the arguments of this call may not be changed; approve or deny it as it is".to_owned());
            }
            let approval =
                AnswerBody::Confirmation { approved: true, digest: Some(*digest), reason: reason.clone(), grant: None };
            fits(item, &Answer { body: approval, ..answer.clone() }, started_by)?;
            if !arguments.as_str().starts_with('{') {
                return Err("arguments are a JSON object".to_owned());
            }
            if arguments.bytes() > USER_TEXT_BYTES as u64 {
                return Err(format!("the arguments are longer than {USER_TEXT_BYTES} bytes"));
            }
            if arguments.depth() > MAX_DEPTH {
                return Err(format!("the arguments are nested more than {MAX_DEPTH} levels deep; flatten them"));
            }
            Ok(AwaitClosure::Approved)
        }
        (AwaitKind::ExternalTools | AwaitKind::Questions, AnswerBody::ToolResults { results }) => {
            exact_set(item, results)?;
            Ok(AwaitClosure::Answered)
        }
        (kind, _) => {
            let wanted = match kind {
                AwaitKind::Clarification => "a text",
                AwaitKind::Input => "the input that its tool asks for; answer with a text or JSON, or deny it",
                AwaitKind::Confirmation => "a decision",
                AwaitKind::ExternalTools | AwaitKind::Questions => "results",
            };
            Err(format!("{} waits for {wanted}", item.id))
        }
    }
}

fn barred(bar: ApproverBar, roles: &[String]) -> String {
    match bar {
        ApproverBar::Role => {
            format!("this is for an actor with one of the roles {}; answer with a key that has one", roles.join(", "))
        }
        ApproverBar::Starter => {
            "the call takes a second person: the starter of the run may deny it, not approve it".to_owned()
        }
        ApproverBar::UnknownStarter => {
            "the call takes a second person, and the run does not say who started it; deny it".to_owned()
        }
    }
}

/// One well-formed result for each awaited call and for no other.
fn exact_set(item: &AwaitView, results: &[ProvidedToolResult]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for result in results {
        let id = &result.tool_call_id;
        let Some(call) = item.calls.iter().find(|call| call.tool_call_id == *id) else {
            return Err(format!("{} does not wait for call {id}", item.id));
        };
        if !seen.insert(id) {
            return Err(format!("there are two results for call {id}"));
        }
        if result.name.as_ref().is_some_and(|name| *name != call.name) {
            return Err(format!("call {id} is of tool {}", call.name));
        }
        let given = [result.result.is_some(), result.result_ref.is_some(), result.error.is_some()];
        if given.iter().filter(|given| **given).count() != 1 {
            return Err(format!("call {id} needs exactly one of result, resultRef and error"));
        }
        // All of it: an error must not carry what a result may not.
        let sent = CanonicalJson::of(result).unwrap_or_else(|_| CanonicalJson::null());
        if sent.bytes() > MAX_INLINE_RESULT {
            return Err(format!("the result of call {id} is too large to send; store it and send its resultRef"));
        }
        if sent.depth() > MAX_DEPTH {
            return Err(format!("the result of call {id} is nested more than {MAX_DEPTH} levels deep; flatten it"));
        }
    }
    match item.calls.iter().find(|call| !seen.contains(&call.tool_call_id)) {
        Some(missing) => Err(format!("the result of call {} is missing", missing.tool_call_id)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        awaits::{AwaitedCall, ExpiryOutcome, NewAwait},
        time::Millis,
    };

    const NOW: Timestamp = Timestamp(1_000);

    fn call(id: &str) -> AwaitedCall {
        AwaitedCall { tool_call_id: id.into(), name: "t".into(), digest: Digest::of_json(&json!(id)), args: None }
    }

    fn open(table: &mut AwaitTable, kind: AwaitKind, calls: Vec<AwaitedCall>) -> AwaitView {
        let new = NewAwait {
            kind,
            title: None,
            prompt: String::new(),
            calls,
            questions: Vec::new(),
            inputs: Vec::new(),
            expires_in: Some(Millis(100)),
            on_expiry: ExpiryOutcome::Replan,
            default_answer: None,
            roles: Vec::new(),
            four_eyes: false,
            edit: false,
        };
        table.open(new, NOW)
    }

    fn status(table: &AwaitTable, answer: &Answer, now: Timestamp) -> AnswerStatus {
        table.judge(answer, None, now).map_or_else(|reply| reply.status, |_| AnswerStatus::Accepted)
    }

    fn approve(id: &str, actor: &str, digest: Option<Digest>) -> Answer {
        Answer::new(id.into(), actor, AnswerBody::Confirmation { approved: true, digest, reason: None, grant: None })
    }

    #[test]
    fn an_approval_needs_an_actor_and_the_digest_that_was_shown() {
        let mut table = AwaitTable::default();
        let item = open(&mut table, AwaitKind::Confirmation, vec![call("c1")]);
        let digest = item.calls[0].digest;
        let cases = [
            (approve("await-1", "ann", Some(digest)), AnswerStatus::Accepted),
            (approve("await-1", " ", Some(digest)), AnswerStatus::Invalid),
            (approve("await-1", "ann", None), AnswerStatus::Invalid),
            (approve("await-1", "ann", Some(Digest::of_json(&json!("c2")))), AnswerStatus::Invalid),
            (Answer::new("await-1".into(), "ann", AnswerBody::denial(None)), AnswerStatus::Accepted),
            (
                Answer::new("await-1".into(), "ann", AnswerBody::Clarification { answer: "yes".into() }),
                AnswerStatus::Invalid,
            ),
        ];
        for (answer, expected) in cases {
            assert_eq!(status(&table, &answer, NOW), expected, "{answer:?}");
        }
    }

    /// A table with one call to approve.
    fn confirmation(roles: &[&str], four_eyes: bool) -> (AwaitTable, Digest) {
        let mut table = AwaitTable::default();
        let new = NewAwait {
            kind: AwaitKind::Confirmation,
            title: None,
            prompt: String::new(),
            calls: vec![call("c1")],
            questions: Vec::new(),
            inputs: Vec::new(),
            expires_in: None,
            on_expiry: ExpiryOutcome::Deny,
            default_answer: None,
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            four_eyes,
            edit: false,
        };
        let digest = table.open(new, NOW).calls[0].digest;
        (table, digest)
    }

    #[test]
    fn an_await_with_roles_is_answered_by_an_actor_with_one_of_them() {
        let (table, digest) = confirmation(&["finance", "board"], false);
        let actor = |roles: &[&str]| Actor {
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            ..Actor::from("key-1")
        };
        for body in [AnswerBody::approval(digest), AnswerBody::denial(None)] {
            let judge = |roles: &[&str]| {
                let answer = Answer::new("await-1".into(), actor(roles), body.clone());
                table.judge(&answer, None, NOW).map(|_| ()).map_err(|reply| (reply.status, reply.message))
            };
            let refused = "this is for an actor with one of the roles finance, board; answer with a key that has one";
            assert_eq!(judge(&["board", "desk"]), Ok(()));
            for roles in [[].as_slice(), &["desk"]] {
                assert_eq!(judge(roles), Err((AnswerStatus::Invalid, refused.to_owned())));
            }
        }
    }

    #[test]
    fn four_eyes_are_two_actors_whatever_they_call_themselves() {
        let (table, digest) = confirmation(&[], true);
        let actor = |id: &str, claimed: Option<&str>| Actor { claimed: claimed.map(str::to_owned), ..id.into() };
        let (ann, bob) = (actor("key-1", None), actor("key-2", None));
        let cases = [
            (Some(&ann), bob.clone(), true, AnswerStatus::Accepted),
            (Some(&ann), actor("key-2", Some("key-1")), true, AnswerStatus::Accepted),
            (Some(&ann), ann.clone(), true, AnswerStatus::Invalid),
            (Some(&ann), actor("key-1", Some("Bob")), true, AnswerStatus::Invalid),
            (Some(&ann), ann.clone(), false, AnswerStatus::Accepted),
            (None, bob.clone(), true, AnswerStatus::Invalid),
            (None, bob, false, AnswerStatus::Accepted),
        ];
        for (starter, actor, approved, expected) in cases {
            let body =
                AnswerBody::Confirmation { approved, digest: approved.then_some(digest), reason: None, grant: None };
            let answer = Answer::new("await-1".into(), actor, body);
            let judged = table.judge(&answer, starter, NOW);
            let status = judged.map_or_else(|reply| reply.status, |_| AnswerStatus::Accepted);
            assert_eq!(status, expected, "{starter:?} {answer:?}");
        }
    }

    #[test]
    fn absent_awaits_are_told_apart() {
        let mut table = AwaitTable::default();
        let item = open(&mut table, AwaitKind::Confirmation, vec![call("c1")]);
        let answer = approve("await-1", "ann", Some(item.calls[0].digest));
        assert_eq!(status(&table, &answer, Timestamp(1_100)), AnswerStatus::Expired);
        let resolution = table.judge(&answer, None, NOW).unwrap();
        table.close(&item.id, resolution.closure, Some(resolution.answer_digest));
        assert_eq!(status(&table, &answer, NOW), AnswerStatus::Duplicate);
        let other = Answer::new("await-1".into(), "bob", AnswerBody::denial(None));
        assert_eq!(status(&table, &other, NOW), AnswerStatus::Stale);
        assert_eq!(status(&table, &approve("await-2", "ann", None), NOW), AnswerStatus::Unknown);
        assert_eq!(status(&table, &approve("nonsense", "ann", None), NOW), AnswerStatus::Unknown);
        let second = open(&mut table, AwaitKind::Confirmation, vec![call("c2")]);
        table.close(&second.id, AwaitClosure::Expired, None);
        assert_eq!(status(&table, &approve("await-2", "ann", None), NOW), AnswerStatus::Expired);
    }

    #[test]
    fn an_await_older_than_memory_is_stale_not_unknown() {
        let mut table = AwaitTable::default();
        for _ in 0..100 {
            let item = open(&mut table, AwaitKind::Clarification, Vec::new());
            table.close(&item.id, AwaitClosure::Answered, None);
        }
        assert_eq!(status(&table, &approve("await-1", "ann", None), NOW), AnswerStatus::Stale);
        assert_eq!(status(&table, &approve("await-101", "ann", None), NOW), AnswerStatus::Unknown);
    }

    #[test]
    fn a_result_too_deep_to_be_read_again_is_refused() {
        let mut table = AwaitTable::default();
        open(&mut table, AwaitKind::ExternalTools, vec![call("c1")]);
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        for (levels, expected) in [(50, AnswerStatus::Accepted), (70, AnswerStatus::Invalid)] {
            let results = json!([{"toolCallId": "c1", "result": nested(levels)}]);
            let body = AnswerBody::ToolResults { results: serde_json::from_value(results).unwrap() };
            assert_eq!(status(&table, &Answer::new("await-1".into(), "", body), NOW), expected, "{levels}");
        }
    }

    #[test]
    fn results_must_be_the_exact_set() {
        let mut table = AwaitTable::default();
        open(&mut table, AwaitKind::ExternalTools, vec![call("c1"), call("c2")]);
        let result = |id: &str| json!({"toolCallId": id, "result": null});
        let cases = [
            (json!([result("c2"), result("c1")]), AnswerStatus::Accepted),
            (json!([result("c1")]), AnswerStatus::Invalid),
            (json!([result("c1"), result("c2"), result("c2")]), AnswerStatus::Invalid),
            (json!([result("c1"), result("c2"), result("c3")]), AnswerStatus::Invalid),
            (json!([result("c1"), {"toolCallId": "c2"}]), AnswerStatus::Invalid),
            (
                json!([result("c1"), {"toolCallId": "c2", "result": 1, "error": {"kind": "tool_failed", "message": "x"}}]),
                AnswerStatus::Invalid,
            ),
            (json!([result("c1"), {"toolCallId": "c2", "name": "other", "result": 1}]), AnswerStatus::Invalid),
        ];
        for (results, expected) in cases {
            let body = AnswerBody::ToolResults { results: serde_json::from_value(results.clone()).unwrap() };
            assert_eq!(status(&table, &Answer::new("await-1".into(), "", body), NOW), expected, "{results}");
        }
    }
}
