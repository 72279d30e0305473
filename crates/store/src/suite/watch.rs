//! Being told about new events.

use std::time::Duration;

use windlass_core::ids::RunId;

use super::{Bench, batch, note, run_id};
use crate::{EventWatch, RecordBatch, Store};

/// Only a bug makes a test wait this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits to be woken, and finds the event it was woken for.
async fn woken(store: &dyn Store, run: &RunId, watch: &mut EventWatch, seq: u64) {
    tokio::time::timeout(PATIENCE, watch.changed()).await.expect("the watcher was not woken");
    assert_eq!(store.events(run, seq - 1, 1).await.unwrap().len(), 1);
}

pub(crate) async fn an_append_wakes_the_watcher(bench: Bench) {
    let run = run_id();
    let mut watch = bench.store.watch(&run);
    bench.open(&run).await;
    woken(bench.store.as_ref(), &run, &mut watch, 1).await;
    for seq in 2..5 {
        bench.store.append_events(&run, vec![note(&seq.to_string(), "x")]).await.unwrap();
        woken(bench.store.as_ref(), &run, &mut watch, seq).await;
    }
}

pub(crate) async fn a_watcher_that_waits_is_woken(bench: Bench) {
    let run = run_id();
    let mut watch = bench.store.watch(&run);
    let waiting = tokio::spawn(async move { tokio::time::timeout(PATIENCE, watch.changed()).await });
    bench.open(&run).await;
    waiting.await.unwrap().expect("the watcher was not woken");
}

pub(crate) async fn other_writes_of_a_run_wake_too(bench: Bench) {
    let run = run_id();
    let mut watch = bench.store.watch(&run);
    let head = bench.open(&run).await;
    woken(bench.store.as_ref(), &run, &mut watch, 1).await;
    bench.store.record(RecordBatch { events: vec![note("a", "1")], ..batch(&run, head) }).await.unwrap();
    woken(bench.store.as_ref(), &run, &mut watch, 2).await;
}

pub(crate) async fn writes_of_another_process_wake_too(bench: Bench) {
    let run = run_id();
    let other = (bench.another)().await;
    let mut watch = other.watch(&run);
    bench.open(&run).await;
    woken(other.as_ref(), &run, &mut watch, 1).await;
    for seq in 2..5 {
        bench.store.append_events(&run, vec![note(&seq.to_string(), "x")]).await.unwrap();
        woken(other.as_ref(), &run, &mut watch, seq).await;
    }
}
