//! Conversations that outlive their runs.

use serde_json::json;
use windlass_core::{
    envelope::{Labels, TranscriptHead},
    ids::{CallId, RunId, ToolName, WorkspaceId},
    message::{Content, Message, Part, Role},
    run::RunStatus,
};

use super::{Bench, batch, cancelled, head_of, new_run, session, workspace};
use crate::{MessagePage, NewRun, RecordBatch, SessionRow, TranscriptPage};

/// The next run of the session: it starts from the conversation so far.
fn next_run(id: &str, question: &str) -> NewRun {
    let mut new = new_run(&RunId::new(id), &[]);
    new.session = Some(session());
    new.continues_session = true;
    new.messages.push(Message::user(question));
    new
}

/// What a run adds to its transcript when it uses a tool before it answers.
fn work(answer: &str) -> Vec<Message> {
    let (id, name) = (CallId::new("c1"), ToolName::new("look"));
    let content = json!("seen").into();
    let seen = Content::ToolResult { tool_use_id: id.clone(), content, parts: Vec::new(), is_error: false };
    vec![
        Message::new(Role::Assistant, vec![Part::tool_use(id, name, json!({}).into())]),
        Message::new(Role::User, vec![seen.into()]),
        Message::assistant(answer),
    ]
}

fn last_batch(id: &str, head: TranscriptHead, messages: Vec<Message>) -> RecordBatch {
    RecordBatch { messages, status: RunStatus::Completed, closes_session_turn: true, ..batch(&RunId::new(id), head) }
}

async fn conversation(bench: &Bench) -> Vec<Message> {
    bench.store.session_messages(&workspace(), &session()).await.unwrap()
}

pub(crate) async fn a_session_is_created_once(bench: Bench) {
    let created_at = bench.at(10);
    let row = SessionRow {
        workspace: workspace(),
        id: session(),
        name: None,
        spec: None,
        metadata: Labels::new(),
        agent: None,
        summary: String::new(),
        created_at,
        last_used_at: created_at,
        ended_at: None,
    };
    assert_eq!(bench.store.ensure_session(&workspace(), &session()).await.unwrap(), row);
    bench.at(20);
    assert_eq!(bench.store.ensure_session(&workspace(), &session()).await.unwrap(), row);
    assert_eq!(conversation(&bench).await, []);
    // The same name in another workspace is another session.
    let elsewhere = bench.store.ensure_session(&WorkspaceId::new("rival"), &session()).await.unwrap();
    assert_eq!(elsewhere.created_at, bench.at(20));
}

pub(crate) async fn a_successful_run_leaves_question_and_answer(bench: Bench) {
    let head = bench.store.open_run(next_run("one", "what is there?")).await.unwrap();
    assert_eq!(conversation(&bench).await, []);
    bench.store.record(last_batch("one", head, work("a door"))).await.unwrap();
    assert_eq!(conversation(&bench).await, [Message::user("what is there?"), Message::assistant("a door")]);
    assert_eq!(bench.store.session_messages(&WorkspaceId::new("rival"), &session()).await.unwrap(), []);
}

pub(crate) async fn the_next_run_starts_from_the_conversation(bench: Bench) {
    let head = bench.store.open_run(next_run("one", "what is there?")).await.unwrap();
    bench.store.record(last_batch("one", head, work("a door"))).await.unwrap();
    let head = bench.store.open_run(next_run("two", "what colour?")).await.unwrap();
    let so_far = [Message::user("what is there?"), Message::assistant("a door"), Message::user("what colour?")];
    assert_eq!(head, head_of(&so_far));
    assert_eq!(bench.store.transcript(&RunId::new("two"), head).await.unwrap(), so_far);
    let page = bench.store.transcript_page(&RunId::new("two"), 2, 1).await.unwrap();
    let messages = vec![(3, Message::user("what colour?"))];
    assert_eq!(page, TranscriptPage { messages, total: 3, opening: 3, earlier: 2 });
    bench.store.record(last_batch("two", head, vec![Message::assistant("green")])).await.unwrap();
    assert_eq!(conversation(&bench).await, [so_far.as_slice(), &[Message::assistant("green")]].concat());
}

pub(crate) async fn closing_the_turn_twice_adds_once(bench: Bench) {
    let head = bench.store.open_run(next_run("one", "what is there?")).await.unwrap();
    let last = last_batch("one", head, work("a door"));
    let closed = bench.store.record(last.clone()).await.unwrap();
    assert_eq!(bench.store.record(last).await.unwrap(), closed);
    bench.store.record(last_batch("one", closed, vec![Message::assistant("one more thing")])).await.unwrap();
    assert_eq!(conversation(&bench).await, [Message::user("what is there?"), Message::assistant("a door")]);
}

pub(crate) async fn runs_that_end_otherwise_leave_nothing(bench: Bench) {
    let head = bench.store.open_run(next_run("one", "what is there?")).await.unwrap();
    let failed = RecordBatch {
        events: vec![cancelled("end")],
        closes_session_turn: false,
        ..last_batch("one", head, work("a door"))
    };
    bench.store.record(failed).await.unwrap();
    assert_eq!(conversation(&bench).await, []);

    let alone = RunId::new("alone");
    let head = bench.open(&alone).await;
    bench.store.record(last_batch("alone", head, work("a door"))).await.unwrap();
    assert_eq!(conversation(&bench).await, []);
}

pub(crate) async fn a_conversation_is_read_in_pages(bench: Bench) {
    for (id, question) in [("one", "1?"), ("two", "2?")] {
        let head = bench.store.open_run(next_run(id, question)).await.unwrap();
        bench.store.record(last_batch(id, head, vec![Message::assistant(format!("to {question}"))])).await.unwrap();
    }
    let page = async |before, last| {
        let page = bench.store.session_page(&workspace(), &session(), before, last).await.unwrap();
        let texts = page.messages.into_iter().map(|(place, message)| (place, message.plain_text()));
        (texts.collect::<Vec<_>>(), page.total)
    };
    let all = [(1, "1?"), (2, "to 1?"), (3, "2?"), (4, "to 2?")].map(|(place, text)| (place, text.to_owned()));
    let cases = [
        (None, None, &all[..]),
        (None, Some(3), &all[1..]),
        (None, Some(9), &all[..]),
        (Some(3), None, &all[..2]),
        (Some(4), Some(2), &all[1..3]),
        (Some(1), Some(2), &[]),
        (Some(0), None, &[]),
        (Some(u64::MAX), Some(1), &all[3..]),
        (None, Some(0), &[]),
    ];
    for (before, last, expected) in cases {
        assert_eq!(page(before, last).await, (expected.to_vec(), 4), "before {before:?}, last {last:?}");
    }
    let missing = bench.store.session_page(&WorkspaceId::new("rival"), &session(), None, None).await.unwrap();
    assert_eq!(missing, MessagePage { messages: Vec::new(), total: 0 });
}
