//! What a workflow records.

use windlass_core::{
    message::Message,
    run::{Phase, RunStatus},
};

use super::{Bench, batch, cancelled, code, head_of, note, run_id};
use crate::{RecordBatch, RunRow};

pub(crate) async fn a_batch_changes_transcript_log_and_row_together(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    let before = bench.store.run(&run).await.unwrap().unwrap();
    let batch = RecordBatch {
        messages: vec![Message::user("and?")],
        events: vec![note("a", "1"), note("b", "2")],
        status: RunStatus::Waiting,
        phase: Phase::Waiting,
        ..batch(&run, opened)
    };
    let recorded_at = bench.at(20);
    let head = bench.store.record(batch.clone()).await.unwrap();
    assert_eq!(head, head_of(&[Message::user("hello"), Message::user("and?")]));
    let after = RunRow {
        status: RunStatus::Waiting,
        phase: Phase::Waiting,
        updated_at: recorded_at,
        head,
        last_seq: 3,
        ..before
    };
    assert_eq!(bench.store.run(&run).await.unwrap(), Some(after.clone()));

    bench.at(30);
    assert_eq!(bench.store.record(batch).await.unwrap(), head);
    assert_eq!(bench.store.run(&run).await.unwrap(), Some(after));
}

pub(crate) async fn a_terminal_event_closes_the_run(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    let last = RecordBatch {
        events: vec![cancelled("end")],
        status: RunStatus::Cancelled,
        phase: Phase::Done,
        ..batch(&run, opened)
    };
    let closed_at = bench.at(20);
    bench.store.record(last.clone()).await.unwrap();
    let closed = bench.store.run(&run).await.unwrap().unwrap();
    assert_eq!(
        (closed.status, closed.phase, closed.closed_at, closed.updated_at),
        (RunStatus::Cancelled, Phase::Done, Some(closed_at), closed_at)
    );
    bench.at(30);
    bench.store.record(last).await.unwrap();
    assert_eq!(
        code(bench.store.record(RecordBatch { events: vec![note("a", "1")], ..batch(&run, opened) }).await),
        "STO0006"
    );
    assert_eq!(bench.store.run(&run).await.unwrap(), Some(closed));
}

pub(crate) async fn a_late_repeat_does_not_turn_the_row_back(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    let early = RecordBatch {
        messages: vec![Message::user("and?")],
        events: vec![note("a", "1")],
        status: RunStatus::Waiting,
        ..batch(&run, opened)
    };
    let head = bench.store.record(early.clone()).await.unwrap();
    // A batch may carry nothing but a state.
    bench.store.record(RecordBatch { phase: Phase::ExecutingTools, ..batch(&run, head) }).await.unwrap();
    let moved_on = bench.store.run(&run).await.unwrap().unwrap();
    assert_eq!((moved_on.status, moved_on.phase), (RunStatus::Running, Phase::ExecutingTools));
    bench.store.record(early).await.unwrap();
    assert_eq!(bench.store.run(&run).await.unwrap().unwrap(), moved_on);

    let last = RecordBatch { events: vec![cancelled("end")], status: RunStatus::Cancelled, ..batch(&run, head) };
    bench.store.record(last).await.unwrap();
    bench.store.record(RecordBatch { status: RunStatus::Paused, ..batch(&run, head) }).await.unwrap();
    assert_eq!(bench.store.run(&run).await.unwrap().unwrap().status, RunStatus::Cancelled);
}

pub(crate) async fn a_refused_batch_leaves_nothing_behind(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    let before = bench.store.run(&run).await.unwrap();
    let refused = RecordBatch {
        messages: vec![Message::user("and?")],
        events: vec![note("a", "1"), note("started", "not the start")],
        status: RunStatus::Failed,
        ..batch(&run, opened)
    };
    assert_eq!(code(bench.store.record(refused).await), "STO0004");
    assert_eq!(bench.store.run(&run).await.unwrap(), before);
    assert_eq!(bench.keys(&run).await, [(1, "started".into())]);
}
