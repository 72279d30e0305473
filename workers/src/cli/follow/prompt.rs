//! Answering at the keyboard: which await is asked about, and what a typed line means.

use std::{
    collections::VecDeque,
    io::{self, BufRead as _, IsTerminal as _},
    thread,
};

use tokio::sync::mpsc;
use windlass_core::{
    awaits::{AwaitKind, AwaitView},
    envelope::{Actor, Answer, AnswerBody},
    ids::{AwaitId, RunId},
};

/// Awaits that can be answered by typing, in the order in which they opened.
#[derive(Debug)]
pub(super) struct Prompter {
    actor: Actor,
    waiting: VecDeque<(RunId, AwaitView)>,
    asking: bool,
}

/// What to do with a line that was typed.
#[derive(Debug, PartialEq)]
pub(super) enum Typed {
    Send(RunId, Answer),
    /// Nothing was said; ask again.
    Again,
}

impl Prompter {
    /// For whoever sits at this terminal, if anybody does and says who they are.
    pub(super) fn at_terminal(actor: &Actor) -> Option<Self> {
        let somebody = io::stdin().is_terminal() && io::stderr().is_terminal() && !actor.is_empty();
        somebody.then(|| Self::new(actor))
    }

    fn new(actor: &Actor) -> Self {
        Self { actor: actor.clone(), waiting: VecDeque::new(), asking: false }
    }

    pub(super) fn opened(&mut self, run: &RunId, item: AwaitView) {
        if matches!(item.kind, AwaitKind::Clarification | AwaitKind::Confirmation) {
            self.waiting.push_back((run.clone(), item));
        }
    }

    /// Says whether it was the one that is being asked about.
    pub(super) fn closed(&mut self, run: &RunId, id: &AwaitId) -> bool {
        let of = |(other, item): &(RunId, AwaitView)| other == run && item.id == *id;
        let asked = self.asking && self.waiting.front().is_some_and(of);
        self.waiting.retain(|waiting| !of(waiting));
        if asked {
            self.asking = false;
        }
        asked
    }

    /// The next question to put, if none is open.
    pub(super) fn next_question(&mut self) -> Option<String> {
        if self.asking {
            return None;
        }
        let (_, item) = self.waiting.front()?;
        self.asking = true;
        Some(match item.kind {
            AwaitKind::Confirmation => format!("approve {} as {}? [y/N] ", item.id, self.actor),
            _ => format!("answer to {}> ", item.id),
        })
    }

    pub(super) fn is_asking(&self) -> bool {
        self.asking
    }

    /// Takes a line for the question that is open.
    pub(super) fn typed(&mut self, line: &str) -> Typed {
        self.asking = false;
        let line = line.trim();
        let Some((run, item)) = self.waiting.front() else { return Typed::Again };
        let body = match item.kind {
            AwaitKind::Confirmation => {
                let approved = matches!(line.to_lowercase().as_str(), "y" | "yes");
                let digest = item.calls.first().map(|call| call.digest).filter(|_| approved);
                AnswerBody::Confirmation { approved, digest }
            }
            _ if line.is_empty() => return Typed::Again,
            _ => AnswerBody::Clarification { answer: line.to_owned() },
        };
        Typed::Send(run.clone(), Answer::new(item.id.clone(), self.actor.clone(), body))
    }
}

/// Lines from the keyboard. A thread reads them because reading a terminal cannot be given up half way.
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
    fn questions_are_put_one_after_the_other() {
        let mut prompter = Prompter::new(&"ann".into());
        prompter.opened(&run(), item("await-1", AwaitKind::Clarification));
        prompter.opened(&run(), item("await-2", AwaitKind::ExternalTools));
        prompter.opened(&run(), item("await-3", AwaitKind::Confirmation));
        assert_eq!(prompter.next_question().as_deref(), Some("answer to await-1> "));
        assert_eq!(prompter.next_question(), None);
        let body = AnswerBody::Clarification { answer: "the team".into() };
        assert_eq!(prompter.typed(" the team "), Typed::Send(run(), Answer::new("await-1".into(), "ann", body)));
        prompter.closed(&run(), &"await-1".into());
        assert_eq!(prompter.next_question().as_deref(), Some("approve await-3 as ann? [y/N] "));
        prompter.closed(&run(), &"await-3".into());
        assert_eq!(prompter.next_question(), None);
    }

    #[test]
    fn only_a_clear_yes_approves_and_it_carries_the_digest() {
        let digest = Some(Digest::of_json(&json!(1)));
        for (line, approved) in [("y", true), ("YES ", true), ("", false), ("n", false), ("yep", false)] {
            let mut prompter = Prompter::new(&"ann".into());
            prompter.opened(&run(), item("await-1", AwaitKind::Confirmation));
            prompter.next_question();
            let body = AnswerBody::Confirmation { approved, digest: digest.filter(|_| approved) };
            assert_eq!(prompter.typed(line), Typed::Send(run(), Answer::new("await-1".into(), "ann", body)), "{line}");
        }
    }

    #[test]
    fn an_empty_answer_is_not_an_answer() {
        let mut prompter = Prompter::new(&"ann".into());
        prompter.opened(&run(), item("await-1", AwaitKind::Clarification));
        prompter.next_question();
        assert_eq!(prompter.typed("  "), Typed::Again);
        assert_eq!(prompter.next_question().as_deref(), Some("answer to await-1> "));
    }

    #[test]
    fn an_answer_from_elsewhere_ends_the_question() {
        let mut prompter = Prompter::new(&"ann".into());
        prompter.opened(&run(), item("await-1", AwaitKind::Clarification));
        prompter.next_question();
        assert!(!prompter.closed(&"run-2".into(), &"await-1".into()));
        assert!(prompter.closed(&run(), &"await-1".into()));
        assert!(!prompter.is_asking());
    }
}
