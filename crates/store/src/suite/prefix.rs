//! Runs that refer to the conversation of their session.

use windlass_core::{envelope::TranscriptHead, ids::RunId, message::Message, run::RunStatus, time::Timestamp};

use super::{Bench, batch, cancelled, code, head_of, new_run, session, workspace};
use crate::{NewRun, RecordBatch, ReservedRun, Retention, TranscriptPage, testing::reserved};

/// Opens a run that continues the session.
async fn ask(bench: &Bench, id: &str, question: &str) -> TranscriptHead {
    let new = NewRun { session: Some(session()), continues_session: true, ..new_run(&RunId::new(id), &[question]) };
    bench.store.open_run(new).await.unwrap()
}

async fn answer(bench: &Bench, id: &str, head: TranscriptHead, answer: &str) -> TranscriptHead {
    let last = RecordBatch {
        messages: vec![Message::assistant(answer)],
        events: vec![cancelled("end")],
        status: RunStatus::Completed,
        closes_session_turn: true,
        ..batch(&RunId::new(id), head)
    };
    bench.store.record(last).await.unwrap()
}

fn talk(turns: &[(&str, &str)]) -> Vec<Message> {
    turns.iter().flat_map(|(asked, said)| [Message::user(*asked), Message::assistant(*said)]).collect()
}

fn with(mut conversation: Vec<Message>, question: &str) -> Vec<Message> {
    conversation.push(Message::user(question));
    conversation
}

async fn transcript(bench: &Bench, id: &str, head: TranscriptHead) -> Vec<Message> {
    bench.store.transcript(&RunId::new(id), head).await.unwrap()
}

pub(crate) async fn a_run_continues_the_conversation_as_it_was_when_it_opened(bench: Bench) {
    let one = ask(&bench, "one", "1?").await;
    answer(&bench, "one", one, "1!").await;
    let so_far = talk(&[("1?", "1!")]);
    // Two runs at the same time: neither sees the other, and each adds to the conversation when it ends.
    let (two, three) = (ask(&bench, "two", "2?").await, ask(&bench, "three", "3?").await);
    assert_eq!((two, three), (head_of(&with(so_far.clone(), "2?")), head_of(&with(so_far.clone(), "3?"))));
    let three_ended = answer(&bench, "three", three, "3!").await;
    answer(&bench, "two", two, "2!").await;
    let conversation = talk(&[("1?", "1!"), ("3?", "3!"), ("2?", "2!")]);
    assert_eq!(bench.store.session_messages(&workspace(), &session()).await.unwrap(), conversation);
    assert_eq!(transcript(&bench, "two", two).await, with(so_far.clone(), "2?"));
    assert_eq!(transcript(&bench, "three", three_ended).await, talk(&[("1?", "1!"), ("3?", "3!")]));
    // Opening again returns the first head, although the conversation has grown.
    assert_eq!(ask(&bench, "two", "2?").await, two);
    let four = ask(&bench, "four", "4?").await;
    assert_eq!(four, head_of(&with(conversation, "4?")));
}

pub(crate) async fn heads_inside_the_conversation_are_heads_of_the_run(bench: Bench) {
    let one = ask(&bench, "one", "1?").await;
    answer(&bench, "one", one, "1!").await;
    let two = ask(&bench, "two", "2?").await;
    let (run, all) = (RunId::new("two"), with(talk(&[("1?", "1!")]), "2?"));
    for len in 0..=all.len() {
        let (before, after) = all.split_at(len);
        assert_eq!(transcript(&bench, "two", head_of(before)).await, before);
        assert_eq!(bench.append(&run, head_of(before), after.to_vec()).await.unwrap(), two, "a repeat");
        if len < all.len() {
            let other = vec![Message::user("something else")];
            assert_eq!(code(bench.append(&run, head_of(before), other).await), "STO0003");
        }
    }
    for (after, limit) in [(0, 2), (1, 2), (2, 5), (3, 1)] {
        let messages = (1..).zip(all.clone()).skip(after).take(limit as usize).collect();
        let page = bench.store.transcript_page(&run, after as u64, limit).await.unwrap();
        assert_eq!(page, TranscriptPage { messages, total: 3, opening: 3, earlier: 2 });
    }
}

pub(crate) async fn a_conversation_is_kept_while_a_run_refers_to_it(bench: Bench) {
    bench.at(10);
    let one = ask(&bench, "one", "1?").await;
    answer(&bench, "one", one, "1!").await;
    let two = ask(&bench, "two", "2?").await;
    bench.store.end_session(&workspace(), &session()).await.unwrap();
    let sweep = async |before| {
        let before = Timestamp(before);
        let counted = bench.store.would_sweep(before).await.unwrap();
        let swept = bench.store.sweep(Retention { before, limit: 10 }).await.unwrap();
        assert_eq!(counted, swept);
        (swept.runs, swept.sessions, swept.blobs)
    };
    bench.at(20);
    assert_eq!(sweep(15).await, (1, 0, 0), "the run that said it is gone, the run that refers to it is not");
    assert_eq!(transcript(&bench, "two", two).await, with(talk(&[("1?", "1!")]), "2?"));
    answer(&bench, "two", two, "2!").await;
    assert_eq!(sweep(21).await, (1, 1, 4));
}

pub(crate) async fn a_reserved_run_with_messages_cannot_begin_with_a_conversation(bench: Bench) {
    let one = ask(&bench, "one", "1?").await;
    answer(&bench, "one", one, "1!").await;
    let two = RunId::new("two");
    let reservation = ReservedRun { session: Some(session()), ..reserved("two", "2?") };
    bench.store.reserve_run(reservation).await.unwrap();
    let early = vec![Message::user("too early")];
    let head = bench.append(&two, TranscriptHead::default(), early.clone()).await.unwrap();
    let new = NewRun { session: Some(session()), continues_session: true, ..new_run(&two, &["2?"]) };
    assert_eq!(code(bench.store.open_run(new).await), "STO0003");
    assert_eq!(bench.store.run(&two).await.unwrap().unwrap().head, head);
    assert_eq!(transcript(&bench, "two", head).await, early);
}

pub(crate) async fn only_a_run_of_a_session_can_continue_one(bench: Bench) {
    let run = RunId::new("one");
    let new = NewRun { continues_session: true, ..new_run(&run, &["1?"]) };
    assert_eq!(code(bench.store.open_run(new).await), "STO0011");
    assert_eq!(bench.store.run(&run).await.unwrap(), None);
    // A run may join a session without its conversation, as a sub-agent's does.
    let one = ask(&bench, "one", "1?").await;
    answer(&bench, "one", one, "1!").await;
    let new = NewRun { session: Some(session()), ..new_run(&RunId::new("two"), &["2?"]) };
    assert_eq!(bench.store.open_run(new).await.unwrap(), head_of(&[Message::user("2?")]));
}
