//! Being told about new events.

use std::time::Duration;

use windlass_core::ids::RunId;

use super::{Bench, batch, note, run_id};
use crate::{EventWatch, Store};

/// Only a bug makes a test wait this long.
const PATIENCE: Duration = Duration::from_secs(30);

async fn woken(watch: &mut EventWatch) {
    tokio::time::timeout(PATIENCE, watch.changed()).await.expect("nobody woke the watcher");
}

/// Follows the log as a stream does, until it reaches `seq`.
async fn follow(store: &dyn Store, run: &RunId, watch: &mut EventWatch, seq: u64) {
    while store.events(run, seq - 1, 1).await.unwrap().is_empty() {
        woken(watch).await;
    }
}

pub(crate) async fn an_append_wakes_the_watcher(bench: Bench) {
    let run = run_id();
    bench.open(&run).await;
    let mut watch = bench.store.watch(&run);
    let waiting = tokio::spawn(async move { woken(&mut watch).await });
    bench.store.append_events(&run, vec![note("a", "1")]).await.unwrap();
    waiting.await.unwrap();
}

pub(crate) async fn an_append_before_the_wait_is_not_missed(bench: Bench) {
    let run = run_id();
    let mut watch = bench.store.watch(&run);
    bench.open(&run).await;
    woken(&mut watch).await;
    bench.store.append_events(&run, vec![note("a", "1")]).await.unwrap();
    bench.store.append_events(&run, vec![note("b", "2")]).await.unwrap();
    woken(&mut watch).await;
}

pub(crate) async fn other_writes_of_a_run_wake_too(bench: Bench) {
    let run = run_id();
    let head = bench.open(&run).await;
    let mut watch = bench.store.watch(&run);
    let mut recorded = batch(&run, head);
    recorded.events = vec![note("a", "1")];
    bench.store.record(recorded).await.unwrap();
    follow(bench.store.as_ref(), &run, &mut watch, 2).await;
}

pub(crate) async fn writes_of_another_process_wake_too(bench: Bench) {
    let run = run_id();
    let other = (bench.another)();
    let mut watch = other.watch(&run);
    bench.open(&run).await;
    follow(other.as_ref(), &run, &mut watch, 1).await;
    // A second round: the first may be owed to the look that every newcomer gets.
    for seq in 2..5 {
        bench.store.append_events(&run, vec![note(&seq.to_string(), "x")]).await.unwrap();
        follow(other.as_ref(), &run, &mut watch, seq).await;
    }
}
