//! Prompts at a terminal: which await is asked about, and what a typed line means.

use std::{
    collections::VecDeque,
    io::{self, BufRead as _, IsTerminal as _},
    thread,
};

use tokio::sync::mpsc;
use windlass_core::{
    approval::{GrantArguments, GrantLevel, GrantRequest},
    awaits::{AwaitKind, AwaitView},
    envelope::{Actor, Answer, AnswerBody},
    ids::{AwaitId, RunId},
};

/// Leaves a question open. With a slash, because `later` may be an answer.
const LATER: &str = "/later";

/// Awaits that can be answered by typing, in the order in which they opened.
#[derive(Debug)]
pub(super) struct Prompter {
    actor: Actor,
    waiting: VecDeque<(RunId, AwaitView)>,
    asking: bool,
    /// The next line is the reason for denying the first one.
    denying: bool,
    /// Answered; the run has not replied yet.
    answered: Vec<(RunId, AwaitView)>,
}

/// What to do with a line that was typed.
#[derive(Debug, PartialEq)]
pub(super) enum Typed {
    Send(RunId, Box<Answer>),
    /// The question stays open and is not asked again.
    Later(RunId, Box<AwaitView>),
    /// Ask again, or ask the next question; with a hint what can be typed.
    Again(Option<&'static str>),
}

impl Prompter {
    /// `None` if there is no terminal, or no name for the person at it.
    pub(super) fn at_terminal(actor: &Actor) -> Option<Self> {
        let interactive = io::stdin().is_terminal() && io::stderr().is_terminal() && !actor.is_empty();
        interactive.then(|| Self::new(actor))
    }

    fn new(actor: &Actor) -> Self {
        let (waiting, answered) = (VecDeque::new(), Vec::new());
        Self { actor: actor.clone(), waiting, asking: false, denying: false, answered }
    }

    pub(super) fn opened(&mut self, run: &RunId, item: AwaitView) {
        if matches!(item.kind, AwaitKind::Clarification | AwaitKind::Confirmation | AwaitKind::Input) {
            self.waiting.push_back((run.clone(), item));
        }
    }

    /// Returns whether it was the one that is being asked about.
    pub(super) fn closed(&mut self, run: &RunId, id: &AwaitId) -> bool {
        let of = |(other, item): &(RunId, AwaitView)| other == run && item.id == *id;
        let first = self.waiting.front().is_some_and(of);
        let asked = self.asking && first;
        self.waiting.retain(|waiting| !of(waiting));
        self.answered.retain(|answered| !of(answered));
        if first {
            (self.asking, self.denying) = (false, false);
        }
        asked
    }

    /// The answer was not valid, or could not be sent: the question is asked again.
    pub(super) fn reopen(&mut self, run: &RunId, id: &AwaitId) {
        let found = self.answered.iter().position(|(other, item)| other == run && item.id == *id);
        if let Some(found) = found {
            let again = self.answered.remove(found);
            self.waiting.push_front(again);
        }
    }

    /// The next question, if none is being asked.
    pub(super) fn next_question(&mut self) -> Option<String> {
        if self.asking {
            return None;
        }
        let (_, item) = self.waiting.front()?;
        self.asking = true;
        Some(match item.kind {
            AwaitKind::Confirmation if self.denying => format!("why is {} denied? (Enter: no reason) ", item.id),
            AwaitKind::Confirmation => format!("approve {} as {}? [y/n/always/later] ", item.id, self.actor),
            _ => format!("answer to {}> ", item.id),
        })
    }

    pub(super) fn is_asking(&self) -> bool {
        self.asking
    }

    /// Handles a line for the question that is being asked.
    pub(super) fn typed(&mut self, line: &str) -> Typed {
        self.asking = false;
        let line = line.trim();
        let Some((_, item)) = self.waiting.front() else { return Typed::Again(None) };
        let reason = Some(line.to_owned()).filter(|reason| !reason.is_empty());
        match (item.kind, line.to_lowercase().as_str()) {
            (AwaitKind::Confirmation, _) if std::mem::take(&mut self.denying) => {
                self.send(AnswerBody::Confirmation { approved: false, digest: None, reason, grant: None })
            }
            (AwaitKind::Confirmation, answer @ ("y" | "yes" | "a" | "always")) => {
                let digest = item.calls.first().map(|call| call.digest);
                let run = GrantRequest { scope: GrantLevel::Run, arguments: GrantArguments::Any, expires_in_ms: None };
                let grant = answer.starts_with('a').then_some(run);
                self.send(AnswerBody::Confirmation { approved: true, digest, reason: None, grant })
            }
            (AwaitKind::Confirmation, "n" | "no") => {
                self.denying = true;
                Typed::Again(None)
            }
            (AwaitKind::Confirmation, "l" | "later" | LATER) | (_, LATER) => self.later(),
            // A typing mistake must not deny a call.
            (AwaitKind::Confirmation, _) => Typed::Again(Some(
                "type y to approve, always to approve this tool for the run, n to deny, or later to leave it open",
            )),
            (_, "") => Typed::Again(Some("type an answer, or /later to leave the question open")),
            _ => self.send(AnswerBody::Clarification { answer: line.to_owned() }),
        }
    }

    fn send(&mut self, body: AnswerBody) -> Typed {
        let Some((run, item)) = self.waiting.pop_front() else { return Typed::Again(None) };
        let answer = Answer::new(item.id.clone(), self.actor.clone(), body);
        self.answered.push((run.clone(), item));
        Typed::Send(run, Box::new(answer))
    }

    fn later(&mut self) -> Typed {
        let later = self.waiting.pop_front();
        later.map_or(Typed::Again(None), |(run, item)| Typed::Later(run, Box::new(item)))
    }
}

/// Lines from the keyboard. A thread reads them, because a read from a terminal cannot be cancelled.
pub(super) struct Keyboard {
    lines: Option<mpsc::UnboundedReceiver<String>>,
}

impl Keyboard {
    pub(super) fn new() -> Self {
        Self { lines: None }
    }

    /// The next line; `None` when the keyboard is closed. Nothing is read before the first call.
    pub(super) async fn line(&mut self) -> Option<String> {
        let lines = self.lines.get_or_insert_with(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            thread::spawn(move || {
                let lines = io::stdin().lock().lines();
                lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
            });
            receiver
        });
        lines.recv().await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_core::canonical::Digest;

    use super::*;

    fn item(id: &str, kind: AwaitKind) -> AwaitView {
        let calls = json!([{"toolCallId": "c", "name": "t", "digest": Digest::of_json(&json!(1))}]);
        let fields =
            json!({"id": id, "kind": kind, "prompt": "?", "calls": calls, "openedAt": 0, "onExpiry": "replan"});
        serde_json::from_value(fields).unwrap()
    }

    fn run() -> RunId {
        "run-1".into()
    }

    #[test]
    fn questions_are_asked_one_after_the_other() {
        let mut prompter = Prompter::new(&"ann".into());
        prompter.opened(&run(), item("await-1", AwaitKind::Clarification));
        prompter.opened(&run(), item("await-2", AwaitKind::ExternalTools));
        prompter.opened(&run(), item("await-3", AwaitKind::Confirmation));
        assert_eq!(prompter.next_question().as_deref(), Some("answer to await-1> "));
        assert_eq!(prompter.next_question(), None);
        assert_eq!(
            prompter.typed(" the team "),
            sent("await-1", AnswerBody::Clarification { answer: "the team".into() })
        );
        assert_eq!(prompter.next_question().as_deref(), Some("approve await-3 as ann? [y/n/always/later] "));
        assert!(!prompter.closed(&run(), &"await-1".into()));
        assert!(prompter.closed(&run(), &"await-3".into()));
        assert_eq!(prompter.next_question(), None);
    }

    fn sent(id: &str, body: AnswerBody) -> Typed {
        Typed::Send(run(), Box::new(Answer::new(id.into(), "ann", body)))
    }

    fn asked(kind: AwaitKind) -> Prompter {
        let mut prompter = Prompter::new(&"ann".into());
        prompter.opened(&run(), item("await-1", kind));
        prompter.next_question();
        prompter
    }

    #[test]
    fn yes_and_always_approve_and_carry_the_digest() {
        let digest = Some(Digest::of_json(&json!(1)));
        for line in ["y", "YES "] {
            let body = AnswerBody::Confirmation { approved: true, digest, reason: None, grant: None };
            assert_eq!(asked(AwaitKind::Confirmation).typed(line), sent("await-1", body), "{line}");
        }
        let grant = serde_json::from_value(json!({"scope": "run"})).unwrap();
        let body = AnswerBody::Confirmation { approved: true, digest, reason: None, grant: Some(grant) };
        assert_eq!(asked(AwaitKind::Confirmation).typed("Always"), sent("await-1", body));
    }

    #[test]
    fn only_no_denies_and_a_reason_may_follow() {
        for (why, reason) in [("", None), (" not on a Friday ", Some("not on a Friday")), ("y", Some("y"))] {
            let mut prompter = asked(AwaitKind::Confirmation);
            assert_eq!(prompter.typed("No"), Typed::Again(None));
            assert_eq!(prompter.next_question().as_deref(), Some("why is await-1 denied? (Enter: no reason) "));
            let reason = reason.map(str::to_owned);
            let body = AnswerBody::Confirmation { approved: false, digest: None, reason, grant: None };
            assert_eq!(prompter.typed(why), sent("await-1", body), "{why}");
        }
    }

    #[test]
    fn an_empty_line_or_a_typing_mistake_is_asked_about_again() {
        let hint = "type y to approve, always to approve this tool for the run, n to deny, or later to leave it open";
        for line in ["", "yep", "nope", " "] {
            let mut prompter = asked(AwaitKind::Confirmation);
            assert_eq!(prompter.typed(line), Typed::Again(Some(hint)), "{line}");
            assert_eq!(prompter.next_question().as_deref(), Some("approve await-1 as ann? [y/n/always/later] "));
        }
        let mut prompter = asked(AwaitKind::Clarification);
        let hint = "type an answer, or /later to leave the question open";
        assert_eq!(prompter.typed("  "), Typed::Again(Some(hint)));
        assert_eq!(prompter.next_question().as_deref(), Some("answer to await-1> "));
    }

    #[test]
    fn later_leaves_the_await_open_and_does_not_ask_again() {
        for (kind, line) in [
            (AwaitKind::Confirmation, "later"),
            (AwaitKind::Confirmation, "L"),
            (AwaitKind::Confirmation, "/later"),
            (AwaitKind::Clarification, "/later"),
        ] {
            let mut prompter = asked(kind);
            assert_eq!(prompter.typed(line), Typed::Later(run(), Box::new(item("await-1", kind))), "{line}");
            assert_eq!(prompter.next_question(), None);
        }
        let body = AnswerBody::Clarification { answer: "later".into() };
        assert_eq!(asked(AwaitKind::Clarification).typed("later"), sent("await-1", body), "it may be the answer");
    }

    #[test]
    fn an_invalid_answer_is_asked_for_again_first() {
        let mut prompter = asked(AwaitKind::Clarification);
        prompter.opened(&run(), item("await-2", AwaitKind::Confirmation));
        prompter.typed("hm");
        prompter.reopen(&run(), &"await-1".into());
        assert_eq!(prompter.next_question().as_deref(), Some("answer to await-1> "));
    }

    #[test]
    fn an_answer_from_another_client_ends_the_question() {
        let mut prompter = asked(AwaitKind::Confirmation);
        prompter.opened(&run(), item("await-2", AwaitKind::Confirmation));
        prompter.typed("n");
        prompter.next_question();
        assert!(!prompter.closed(&"run-2".into(), &"await-1".into()));
        assert!(prompter.closed(&run(), &"await-1".into()));
        assert!(!prompter.is_asking());
        assert_eq!(prompter.next_question().as_deref(), Some("approve await-2 as ann? [y/n/always/later] "), "not why");
    }
}
