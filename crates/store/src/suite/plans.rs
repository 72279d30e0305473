//! The journal of model responses.

use windlass_core::{
    envelope::{Extra, PlanActivityOutput, PlanResult, PlannerNote, TokenUsage, TranscriptHead},
    ids::RunId,
    message::Message,
};

use super::{Bench, code, head_of, note, run_id, started, workspace};
use crate::{JournalledPlan, PlanBegin, PlanBeginning, PlanCommit};

pub(crate) fn response(run: &RunId, head: TranscriptHead, text: &str) -> PlanCommit {
    let notes = vec![PlannerNote { text: text.to_owned(), labels: Default::default() }];
    PlanCommit {
        run: run.clone(),
        turn: 1,
        head,
        message: Message::assistant(text),
        output: PlanActivityOutput {
            v: 1,
            result: PlanResult { notes, ..PlanResult::default() },
            transcript: Vec::new(),
            usage: TokenUsage { input_tokens: 7, ..TokenUsage::default() },
            head: TranscriptHead::default(),
            finish_reason: Some("end_turn".into()),
            enforced: None,
            extra: Extra::new(),
        },
        events: vec![note("plan/1", text)],
    }
}

/// The journal's response for a turn that is to begin.
async fn in_journal(bench: &Bench, run: &RunId, turn: u32) -> Option<JournalledPlan> {
    let head = bench.store.run(run).await.unwrap().unwrap().head;
    let begin = PlanBegin {
        run: run.clone(),
        workspace: workspace(),
        session: None,
        turn,
        head,
        messages: Vec::new(),
        events: Vec::new(),
    };
    match bench.store.begin_plan(begin).await.unwrap() {
        PlanBeginning::Journalled(plan) => Some(*plan),
        PlanBeginning::Ask { .. } => None,
    }
}

pub(crate) async fn a_turn_begins_with_what_happened_since_the_last_one(bench: Bench) {
    let run = run_id();
    let head = bench.open(&run).await;
    let begin = PlanBegin {
        run: run.clone(),
        workspace: workspace(),
        session: None,
        turn: 1,
        head,
        messages: vec![Message::user("and?")],
        events: vec![note("news", "x")],
    };
    let head = head_of(&[Message::user("hello"), Message::user("and?")]);
    let asked = PlanBeginning::Ask { head, rules: Vec::new() };
    assert_eq!(bench.store.begin_plan(begin.clone()).await.unwrap(), asked);
    assert_eq!(bench.store.begin_plan(begin.clone()).await.unwrap(), asked, "a repeat writes nothing");
    assert_eq!(bench.keys(&run).await, [(1, "started".into()), (2, "news".into())]);

    let other = PlanBegin { events: vec![note("news", "y")], ..begin.clone() };
    assert_eq!(code(bench.store.begin_plan(other).await), "STO0004");
    bench.store.settle_plan(&run, 1).await.unwrap();
    assert_eq!(code(bench.store.begin_plan(begin).await), "STO0014", "the turn is closed");
}

pub(crate) async fn a_response_is_journalled_with_its_message_and_events(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    assert_eq!(in_journal(&bench, &run, 1).await, None);
    let commit = response(&run, opened, "hi");
    let journalled = bench.store.commit_plan(commit.clone()).await.unwrap();

    let messages = [Message::user("hello"), Message::assistant("hi")];
    let output = PlanActivityOutput { head: head_of(&messages), ..commit.output };
    assert_eq!(journalled, JournalledPlan { output });
    assert_eq!(in_journal(&bench, &run, 1).await, Some(journalled.clone()));
    assert_eq!(in_journal(&bench, &run, 2).await, None);
    assert_eq!(bench.store.transcript(&run, journalled.output.head).await.unwrap(), messages);
    assert_eq!(bench.keys(&run).await, [(1, "started".into()), (2, "plan/1".into())]);
}

pub(crate) async fn a_repeat_returns_the_first_response(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    let first = bench.store.commit_plan(response(&run, opened, "hi")).await.unwrap();
    assert_eq!(bench.store.commit_plan(response(&run, opened, "hi")).await.unwrap(), first);
    assert_eq!(
        bench.store.commit_plan(response(&run, opened, "a model never says the same twice")).await.unwrap(),
        first
    );
    let row = bench.store.run(&run).await.unwrap().unwrap();
    assert_eq!((row.head, row.last_seq), (first.output.head, 2));
}

pub(crate) async fn a_refused_response_leaves_nothing_behind(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    let stranger = head_of(&[Message::user("who?")]);
    assert_eq!(code(bench.store.commit_plan(response(&run, stranger, "hi")).await), "STO0003");
    let mut taken_key = response(&run, opened, "hi");
    taken_key.events.push(note(&started().key, "not the start"));
    assert_eq!(code(bench.store.commit_plan(taken_key).await), "STO0004");
    assert_eq!(code(bench.store.commit_plan(response(&RunId::new("missing"), opened, "hi")).await), "STO0001");

    assert_eq!(in_journal(&bench, &run, 1).await, None);
    let row = bench.store.run(&run).await.unwrap().unwrap();
    assert_eq!((row.head, row.last_seq), (opened, 1));
}

pub(crate) async fn a_turn_that_was_given_up_takes_no_late_response(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    assert_eq!(bench.store.settle_plan(&run, 1).await.unwrap(), None);
    assert_eq!(bench.store.settle_plan(&run, 1).await.unwrap(), None);
    assert_eq!(code(bench.store.commit_plan(response(&run, opened, "too late")).await), "STO0014");
    assert_eq!(bench.store.run(&run).await.unwrap().unwrap().head, opened, "nothing was written");
    assert_eq!(code(bench.store.settle_plan(&RunId::new("missing"), 1).await), "STO0001");
}

pub(crate) async fn a_turn_that_has_its_response_is_settled_with_it(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    let journalled = bench.store.commit_plan(response(&run, opened, "hi")).await.unwrap();
    assert_eq!(bench.store.settle_plan(&run, 1).await.unwrap(), Some(journalled));
}
