//! The log: order, keys and the end.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_core::{
    event::{Event, EventBody, NewEvent},
    ids::RunId,
    run::{Phase, RunStatus},
    time::Timestamp,
};

use super::{Bench, cancelled, code, note, run_id};

pub(crate) async fn seq_counts_new_keys_from_one(bench: Bench) {
    let run = run_id();
    bench.at(10);
    bench.open(&run).await;
    bench.at(20);
    let two = vec![note("a", "one"), note("b", "two")];
    assert_eq!(bench.store.append_events(&run, two.clone()).await.unwrap(), 3);
    bench.at(30);
    assert_eq!(bench.store.append_events(&run, two).await.unwrap(), 3);
    let some_known = vec![note("b", "two"), note("c", "three"), note("a", "one"), note("c", "three")];
    assert_eq!(bench.store.append_events(&run, some_known).await.unwrap(), 4);

    let written = |seq, at, key: &str, text: &str| Event {
        seq,
        at: Timestamp(at),
        key: key.to_owned(),
        kind: "planner_note".to_owned(),
        data: json!({"text": text}),
    };
    assert_eq!(
        bench.log(&run).await[1..],
        [written(2, 20, "a", "one"), written(3, 20, "b", "two"), written(4, 30, "c", "three")]
    );
    assert_eq!(bench.store.run(&run).await.unwrap().unwrap().updated_at, Timestamp(30));
}

pub(crate) async fn the_first_text_of_a_workflows_event_stays(bench: Bench) {
    let run = run_id();
    bench.open(&run).await;
    bench.store.append_events(&run, vec![note("w/1", "as one build says it")]).await.unwrap();
    let before = bench.log(&run).await;
    bench.store.append_events(&run, vec![note("w/1", "as another build says it")]).await.unwrap();
    assert_eq!(bench.log(&run).await, before);
    let of_another_type =
        NewEvent::new("w/1", EventBody::Status { status: RunStatus::Running, phase: Phase::Planning });
    assert_eq!(code(bench.store.append_events(&run, vec![of_another_type]).await), "STO0004");
    assert_eq!(bench.log(&run).await, before);
}

pub(crate) async fn a_known_key_with_another_body_is_refused_whole(bench: Bench) {
    let run = run_id();
    bench.open(&run).await;
    bench.store.append_events(&run, vec![note("a", "one")]).await.unwrap();
    let before = bench.log(&run).await;
    let refused = bench.store.append_events(&run, vec![note("b", "two"), note("a", "other")]).await;
    assert_eq!(code(refused), "STO0004");
    assert_eq!(bench.log(&run).await, before);
}

pub(crate) async fn nothing_new_follows_the_terminal_event(bench: Bench) {
    let run = run_id();
    bench.open(&run).await;
    let ending = vec![note("a", "one"), cancelled("end")];
    bench.at(40);
    assert_eq!(bench.store.append_events(&run, ending.clone()).await.unwrap(), 3);
    assert_eq!(bench.store.append_events(&run, ending).await.unwrap(), 3);
    assert_eq!(code(bench.store.append_events(&run, vec![note("b", "late")]).await), "STO0006");
    assert_eq!(code(bench.store.append_events(&run, vec![cancelled("end again")]).await), "STO0006");
    assert_eq!(bench.keys(&run).await, [(1, "started".into()), (2, "a".into()), (3, "end".into())]);
    assert_eq!(bench.store.run(&run).await.unwrap().unwrap().closed_at, Some(Timestamp(40)));
}

pub(crate) async fn a_batch_cannot_go_on_after_its_terminal_event(bench: Bench) {
    let run = run_id();
    bench.open(&run).await;
    assert_eq!(code(bench.store.append_events(&run, vec![cancelled("end"), note("a", "late")]).await), "STO0006");
    assert_eq!(bench.keys(&run).await, [(1, "started".into())]);
    assert_eq!(bench.store.append_events(&run, vec![note("a", "in time")]).await.unwrap(), 2);
}

pub(crate) async fn concurrent_writers_leave_no_gap(bench: Bench) {
    const WRITERS: u64 = 32;
    const APPENDS: u64 = 8;
    let run = run_id();
    bench.open(&run).await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, run) = (bench.store.clone(), run.clone());
            tokio::spawn(async move {
                for index in 0..APPENDS {
                    // Two writers share each key, so that half of the appends are repeats.
                    let key = format!("{}/{index}", writer / 2);
                    store.append_events(&run, vec![note(&key, "x")]).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let keys = bench.keys(&run).await;
    let seqs: Vec<u64> = keys.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, (1..=1 + WRITERS / 2 * APPENDS).collect::<Vec<_>>());
    assert_eq!(keys.iter().map(|(_, key)| key).collect::<BTreeSet<_>>().len(), keys.len());
    assert_eq!(bench.store.run(&run).await.unwrap().unwrap().last_seq, keys.len() as u64);
}

pub(crate) async fn a_log_is_read_in_pages(bench: Bench) {
    let run = run_id();
    bench.open(&run).await;
    bench.store.append_events(&run, vec![note("a", "1"), note("b", "2"), note("c", "3")]).await.unwrap();
    let log = bench.log(&run).await;
    assert_eq!(bench.store.events(&run, 1, 2).await.unwrap(), log[1..3]);
    assert_eq!(bench.store.events(&run, 3, 2).await.unwrap(), log[3..]);
    assert_eq!(bench.store.events(&run, u64::MAX, 2).await.unwrap(), []);
}

pub(crate) async fn a_log_needs_a_run(bench: Bench) {
    let missing = RunId::new("missing");
    assert_eq!(code(bench.store.append_events(&missing, vec![note("a", "1")]).await), "STO0001");
    assert_eq!(bench.store.events(&missing, 0, 10).await.unwrap(), []);
    assert_eq!(bench.store.run(&missing).await.unwrap(), None);
}

pub(crate) async fn the_row_shows_what_the_log_said_last(bench: Bench) {
    let run = run_id();
    bench.open(&run).await;
    let status = |key: &str, status, phase| NewEvent::new(key, EventBody::Status { status, phase });
    let waiting = status("w/1", RunStatus::Waiting, Phase::Waiting);
    let running = status("w/2", RunStatus::Running, Phase::Planning);
    for (events, shown) in [
        (vec![waiting.clone()], (RunStatus::Waiting, Phase::Waiting)),
        (vec![running], (RunStatus::Running, Phase::Planning)),
        // A late repeat does not turn the row back.
        (vec![waiting], (RunStatus::Running, Phase::Planning)),
    ] {
        bench.store.append_events(&run, events).await.unwrap();
        let row = bench.store.run(&run).await.unwrap().unwrap();
        assert_eq!((row.status, row.phase), shown);
    }
}
