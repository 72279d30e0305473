//! Deleting what is over.

use serde_json::{Value, json};
use windlass_core::{
    canonical::Digest,
    envelope::{CallStatus, ToolOutput},
    ids::{CallId, RunId, SessionId},
    message::Message,
    run::{Phase, RunStatus},
    time::Timestamp,
};

use super::{
    Bench, batch, calls::new_claim, endings::result, new_run, note, plans, session, session_rows::new_session,
    workspace,
};
use crate::{
    CallClaim, FinishedCall, NewRun, NewSession, RecordBatch, ReservedRun, Retention, Swept, testing::reserved,
};

const DAY: u64 = 24 * 60 * 60 * 1000;

/// Sweeps what was counted.
async fn sweep(bench: &Bench, before: u64) -> Swept {
    let before = Timestamp(before);
    let counted = bench.store.would_sweep(before).await.unwrap();
    let swept = bench.store.sweep(Retention { before, limit: 100 }).await.unwrap();
    assert_eq!(swept, counted);
    swept
}

/// A run with a body of everything, which answers `answer` and closes.
async fn finished_run(bench: &Bench, new: NewRun, answer: &str) -> RunId {
    let (store, run, call) = (&bench.store, new.id.clone(), CallId::new("c"));
    let head = store.open_run(new).await.unwrap();
    let mut plan = plans::response(&run, head, answer);
    plan.events = vec![note("plan", answer)];
    let head = store.commit_plan(plan).await.unwrap().output.head;
    assert_eq!(store.claim_call(new_claim(&run, "c", 1, true)).await.unwrap(), CallClaim::Execute { again: false });
    let finished = FinishedCall {
        run: run.clone(),
        call,
        dispatch: 1,
        idempotent: true,
        output: ToolOutput::new(CallStatus::Ok),
        body: Some(tool_result(&run).into()),
        event: note("tool", "x"),
    };
    store.finish_call(&finished).await.unwrap();
    let last = RecordBatch {
        events: vec![result(answer)],
        status: RunStatus::Completed,
        phase: Phase::Done,
        closes_session_turn: true,
        ..batch(&run, head)
    };
    store.record(last).await.unwrap();
    run
}

fn tool_result(run: &RunId) -> Value {
    json!({"seen by": run})
}

async fn stored(bench: &Bench, body: &impl serde::Serialize) -> bool {
    bench.store.blob(&Digest::of(body).unwrap()).await.unwrap().is_some()
}

pub(crate) async fn old_runs_go_with_everything_they_had(bench: Bench) {
    let store = &bench.store;
    bench.at(DAY);
    let spec = store.put_blob(json!("spec").into()).await.unwrap().digest;
    store.reserve_run(ReservedRun { spec: Some(spec), ..reserved("old", "hello") }).await.unwrap();
    let old = finished_run(&bench, new_run(&RunId::new("old"), &["old question"]), "old answer").await;
    bench.at(3 * DAY);
    let young = finished_run(&bench, new_run(&RunId::new("young"), &["young question"]), "young answer").await;
    let young_row = store.run(&young).await.unwrap();
    let open = RunId::new("open");
    bench.open(&open).await;

    bench.at(9 * DAY);
    assert_eq!(sweep(&bench, DAY).await, Swept::default(), "closed at that time is not closed before it");
    // Question, answer, tool result and spec.
    assert_eq!(sweep(&bench, 2 * DAY).await, Swept { runs: 1, events: 5, sessions: 0, blobs: 4, more: false });
    assert_eq!(sweep(&bench, 2 * DAY).await, Swept::default());

    assert_eq!(store.run(&old).await.unwrap(), None);
    assert_eq!(bench.log(&old).await, []);
    assert_eq!(store.final_text(&old).await.unwrap(), None);
    for body in [json!("spec"), tool_result(&old), json!(Message::user("old question"))] {
        assert!(!stored(&bench, &body).await, "{body}");
    }
    assert_eq!(store.run(&young).await.unwrap(), young_row);
    let head = young_row.unwrap().head;
    assert_eq!(store.transcript(&young, head).await.unwrap()[0], Message::user("young question"));
    assert!(stored(&bench, &tool_result(&young)).await);
    assert!(store.run(&open).await.unwrap().is_some());
    // The id is free again.
    bench.open(&old).await;
}

pub(crate) async fn what_is_still_referred_to_stays(bench: Bench) {
    bench.at(DAY);
    let spec = bench.store.put_blob(json!("spec").into()).await.unwrap().digest;
    bench.store.reserve_run(ReservedRun { spec: Some(spec), ..reserved("old", "q") }).await.unwrap();
    finished_run(&bench, new_run(&RunId::new("old"), &["a common question"]), "a common answer").await;
    bench.at(3 * DAY);
    bench.store.create_session(NewSession { spec: Some(spec), ..new_session("chat") }).await.unwrap();
    let open = RunId::new("open");
    let head = bench.store.open_run(new_run(&open, &["a common question"])).await.unwrap();
    let head = bench.append(&open, head, vec![Message::assistant("a common answer")]).await.unwrap();
    bench.at(9 * DAY);
    let swept = sweep(&bench, 8 * DAY).await;
    assert_eq!((swept.runs, swept.blobs), (1, 1), "only the tool's result had no other reference");
    assert!(stored(&bench, &json!("spec")).await);
    let transcript = [Message::user("a common question"), Message::assistant("a common answer")];
    assert_eq!(bench.store.transcript(&open, head).await.unwrap(), transcript);
}

pub(crate) async fn a_conversation_outlives_its_runs(bench: Bench) {
    bench.at(DAY);
    let new = NewRun { session: Some(session()), ..new_run(&RunId::new("one"), &["question"]) };
    finished_run(&bench, new, "answer").await;
    let conversation = [Message::user("question"), Message::assistant("answer")];
    bench.at(9 * DAY);
    assert_eq!(sweep(&bench, 8 * DAY).await.runs, 1);
    assert_eq!(bench.store.session_messages(&workspace(), &session()).await.unwrap(), conversation);

    bench.store.end_session(&workspace(), &session()).await.unwrap();
    assert_eq!(sweep(&bench, 8 * DAY).await, Swept::default(), "it ended only now");
    bench.at(20 * DAY);
    assert_eq!(sweep(&bench, 19 * DAY).await, Swept { sessions: 1, blobs: 2, ..Swept::default() });
    assert_eq!(bench.store.session(&workspace(), &session()).await.unwrap(), None);
    assert_eq!(bench.store.session_messages(&workspace(), &session()).await.unwrap(), []);
}

pub(crate) async fn a_body_outlives_the_oldest_open_run_that_may_need_it(bench: Bench) {
    let body = json!("only a history refers to this");
    bench.at(10 * DAY);
    bench.store.put_blob(body.clone().into()).await.unwrap();
    // Opened within a day of the body: it may be what the run was started with.
    bench.at(10 * DAY + DAY / 2);
    let run = RunId::new("waits-for-weeks");
    let head = bench.open(&run).await;
    bench.at(90 * DAY);
    assert_eq!(sweep(&bench, 80 * DAY).await, Swept::default());
    assert!(stored(&bench, &body).await);
    // The same body is stored once more: that keeps it, too.
    bench.store.put_blob(body.clone().into()).await.unwrap();
    let last = RecordBatch { events: vec![result("done")], ..batch(&run, head) };
    bench.store.record(last).await.unwrap();
    assert_eq!(sweep(&bench, 89 * DAY).await, Swept::default());
    bench.at(99 * DAY);
    assert_eq!(sweep(&bench, 98 * DAY).await, Swept { runs: 1, events: 2, blobs: 2, ..Swept::default() });
    assert!(!stored(&bench, &body).await);
}

pub(crate) async fn a_sweep_is_bounded(bench: Bench) {
    bench.at(DAY);
    for id in ["a", "b", "c"] {
        let new = NewRun { session: Some(SessionId::new(id)), ..new_run(&RunId::new(id), &["q"]) };
        finished_run(&bench, new, "a").await;
        bench.store.end_session(&workspace(), &SessionId::new(id)).await.unwrap();
    }
    bench.at(9 * DAY);
    let retention = Retention { before: Timestamp(8 * DAY), limit: 2 };
    let counted = bench.store.would_sweep(retention.before).await.unwrap();
    // A question and an answer that all of them share, and a result of each.
    assert_eq!(counted, Swept { runs: 3, events: 15, sessions: 3, blobs: 5, more: false });
    let (mut sweeps, mut blobs) = (Vec::new(), 0);
    loop {
        let swept = bench.store.sweep(retention).await.unwrap();
        sweeps.push((swept.runs, swept.sessions));
        blobs += swept.blobs;
        if !swept.more {
            break;
        }
    }
    assert_eq!((sweeps.as_slice(), blobs), ([(2, 2), (1, 1)].as_slice(), counted.blobs));
    assert!(!stored(&bench, &Message::user("q")).await);
}

pub(crate) async fn reservations_are_forgotten_too(bench: Bench) {
    bench.at(DAY);
    bench.store.reserve_run(reserved("never-began", "q")).await.unwrap();
    bench.at(3 * DAY);
    bench.store.reserve_run(reserved("may-begin", "q")).await.unwrap();
    bench.at(9 * DAY);
    assert_eq!(sweep(&bench, 2 * DAY).await.runs, 1);
    assert_eq!(bench.store.run(&RunId::new("never-began")).await.unwrap(), None);
    assert!(bench.store.run(&RunId::new("may-begin")).await.unwrap().is_some());
}
