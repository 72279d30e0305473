//! Bodies that are stored with parts of others: read, swept and examined, in any order.

use proptest::{collection::vec, prelude::*};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_core::{
    body::Body,
    canonical::CanonicalJson,
    envelope::{BlobRef, CallStatus, ToolOutput},
    event::{EventBody, NewEvent},
    ids::{CallId, RunId},
    message::{Content, Message, Role},
    run::{Phase, RunStatus},
    time::Timestamp,
};
use windlass_sqlite::Progress;

use super::{
    super::{Durability, Options, SqliteStore},
    file,
};
use crate::{
    Blobs as _, CallJournal as _, Events as _, FinishedCall, Housekeeping as _, NewRun, RecordBatch, Retention,
    Runs as _, Sessions as _, Transcripts as _,
    sqlite::examine,
    suite::{batch, calls::new_claim, endings::result as ending, new_run, session, workspace},
};

/// One of a few bodies, all of them long.
fn found(what: u8) -> CanonicalJson {
    let rows: Vec<Value> =
        (0..12).map(|row| json!({"row": row * 7919 % 1000, "of": format!("{what}-{}", row * 31)})).collect();
    json!({ "rows": rows }).into()
}

fn results(of: &[u8]) -> Message {
    let parts = of.iter().map(|what| {
        let content = found(*what);
        Content::ToolResult { tool_use_id: CallId::new("c"), content, parts: Vec::new(), is_error: false }.into()
    });
    Message::new(Role::User, parts.collect())
}

/// The event of a call that brought this.
fn called(call: &CallId, body: &CanonicalJson) -> NewEvent {
    let said = EventBody::ToolResult {
        tool_use_id: call.clone(),
        name: "look".into(),
        ok: true,
        status: CallStatus::Ok,
        result: Some(body.clone()),
        result_bytes: body.bytes(),
        error: None,
        retry_hint: None,
        telemetry: None,
    };
    NewEvent::new(format!("result/{call}"), said)
}

/// A run that calls a tool for each of `of`, says so to the model, answers and ends.
async fn play(store: &SqliteStore, run: &RunId, of: &[u8], in_session: bool) {
    let new = NewRun { session: in_session.then(session), continues_session: in_session, ..new_run(run, &["go"]) };
    let mut head = store.open_run(new).await.unwrap();
    for (call, what) in of.iter().enumerate() {
        let body = found(*what);
        let call = CallId::new(format!("call-{call}"));
        store.claim_call(new_claim(run, call.as_str(), 1, true)).await.unwrap();
        let output = ToolOutput::new(CallStatus::Ok).with_result(&Body::Stored(BlobRef::of(&body)));
        let finished = FinishedCall {
            run: run.clone(),
            call: call.clone(),
            dispatch: 1,
            idempotent: true,
            event: called(&call, &body),
            output,
            body: Some(body),
        };
        store.finish_call(&finished).await.unwrap();
    }
    if !of.is_empty() {
        head = store.record(RecordBatch { messages: vec![results(of)], ..batch(run, head) }).await.unwrap();
    }
    let answer = format!("{of:?} ").repeat(60);
    let last = RecordBatch {
        messages: vec![Message::assistant(&answer)],
        events: vec![ending(&answer)],
        status: RunStatus::Completed,
        phase: Phase::Done,
        closes_session_turn: in_session,
        ..batch(run, head)
    };
    store.record(last).await.unwrap();
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8),
    Run(Vec<u8>, bool),
    /// A message with results that no call of the store has brought.
    Forward(Vec<u8>),
    Sweep(u8),
    EndSession,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => (0..4_u8).prop_map(Step::Put),
        4 => (vec(0..4_u8, 0..3), any::<bool>()).prop_map(|(of, in_session)| Step::Run(of, in_session)),
        2 => vec(0..4_u8, 1..3).prop_map(Step::Forward),
        4 => (0..8_u8).prop_map(Step::Sweep),
        1 => Just(Step::EndSession),
    ];
    vec(step, 1..14)
}

#[test]
fn no_sweep_breaks_what_is_left() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    proptest!(ProptestConfig::with_cases(40), |(steps in steps())| {
        runtime.block_on(check(steps));
    });
}

async fn check(steps: Vec<Step>) {
    let directory = TempDir::new().unwrap();
    let time = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(1));
    let clock: crate::Clock = {
        let time = std::sync::Arc::clone(&time);
        std::sync::Arc::new(move || Timestamp(time.load(std::sync::atomic::Ordering::SeqCst)))
    };
    let options = Options { durability: Durability::Relaxed, clock, ..Options::new(file(&directory)) };
    let store = SqliteStore::open(options).unwrap();
    let sql = Connection::open(file(&directory)).unwrap();
    let mut ended = false;
    for (number, step) in (1..).zip(steps) {
        let now = number * 1000;
        time.store(now, std::sync::atomic::Ordering::SeqCst);
        let run = RunId::new(format!("run-{number}"));
        match step {
            Step::Put(what) => drop(store.put_blob(found(what)).await.unwrap()),
            Step::Run(of, in_session) => play(&store, &run, &of, in_session && !ended).await,
            Step::Forward(of) => {
                let new = NewRun { messages: vec![results(&of)], ..new_run(&run, &[]) };
                let head = store.open_run(new).await.unwrap();
                let last = RecordBatch { messages: vec![results(&of)], events: vec![ending("x")], ..batch(&run, head) };
                store.record(last).await.unwrap();
            }
            Step::Sweep(back) => {
                let before = Timestamp(now.saturating_sub(u64::from(back) * 1000));
                let counted = store.would_sweep(before).await.unwrap();
                let swept = store.sweep(Retention { before, limit: 100 }).await.unwrap();
                assert_eq!((swept.runs, swept.events), (counted.runs, counted.events));
            }
            Step::EndSession => {
                ended = true;
                store.end_session(&workspace(), &session()).await.unwrap();
            }
        }
        let found = examine(&sql, &Progress::default()).unwrap();
        let problems: Vec<_> = found.into_iter().flat_map(|part| part.problems).collect();
        assert_eq!(problems, Vec::<String>::new(), "after step {number}");
    }
    for run in store.runs(crate::RunFilter::default()).await.unwrap().runs {
        store.transcript(&run.id, run.head).await.unwrap();
        assert_eq!(store.events(&run.id, 0, u32::MAX).await.unwrap().len() as u64, run.last_seq);
    }
    store.session_messages(&workspace(), &session()).await.unwrap();
}

#[tokio::test]
async fn the_result_of_a_tool_is_stored_once() {
    let directory = TempDir::new().unwrap();
    let store = super::open(&file(&directory));
    let run = RunId::new("run");
    play(&store, &run, &[1, 2], false).await;
    let sql = Connection::open(file(&directory)).unwrap();
    let spliced = |table: &str| {
        let count = format!("SELECT count(*) FROM {table} WHERE substr(body, 1, 1) = x'03'");
        sql.query_row(&count, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    // The message with both results; the events of the calls and the terminal one.
    assert_eq!((spliced("blobs"), spliced("events")), (1, 3));
    let row = store.run(&run).await.unwrap().unwrap();
    assert_eq!(store.transcript(&run, row.head).await.unwrap()[1], results(&[1, 2]));
    let answer = store.final_text(&run).await.unwrap().unwrap();
    assert_eq!(answer, "[1, 2] ".repeat(60));
    // A reference that leads nowhere is found.
    sql.execute_batch(
        "PRAGMA foreign_keys = OFF; UPDATE blobs SET body = x'7b7d' WHERE number IN (SELECT target FROM splices)",
    )
    .unwrap();
    assert!(store.transcript(&run, row.head).await.is_err());
    let found = examine(&sql, &Progress::default()).unwrap();
    assert!(found.iter().any(|part| part.what == "bodies" && part.problems.len() == 3), "{found:#?}");
}
