//! Little memory: runs are evicted and read again, queues overflow to the disk, and clients and workers do not notice.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, poll, stream};
use tempfile::TempDir;
use temporalio_protos::temporal::api::enums::v1::EventType;
use windlass_engine::Limits;

use super::{
    host::{Host, file, workflow_of},
    load::Load,
    plan::complete,
    script::is_unavailable,
};
use crate::support::block_on;

const RUNS: usize = 2000;
const CACHED: usize = 50;
const AT_A_TIME: usize = 32;

#[test]
fn more_runs_than_the_cache_holds_all_complete() {
    block_on(async {
        let directory = TempDir::new().unwrap();
        let limits = Limits { cached_runs: CACHED, queued_tasks: 100, ..Limits::default() };
        let host = Host::start(&directory, limits).await;
        let begin = async |n: usize| host.begin(&format!("w{n}")).await.unwrap();
        stream::iter(0..RUNS).map(begin).buffer_unordered(AT_A_TIME).collect::<Vec<_>>().await;
        let cached = host.handle.cached();
        assert!(cached <= CACHED + AT_A_TIME, "{cached} runs are in memory");

        let carry_out = async |_| {
            let task = host.workflow_task(false).await.unwrap();
            host.decide(&task, vec![complete()]).await.unwrap();
            workflow_of(&task)
        };
        let done = stream::iter(0..RUNS).map(carry_out).buffer_unordered(AT_A_TIME).collect::<BTreeSet<_>>().await;
        assert_eq!(done, (0..RUNS).map(|n| format!("w{n}")).collect());
        assert_eq!(host.events("w0").await.last(), Some(&EventType::WorkflowExecutionCompleted));
        println!("{RUNS} runs carried out with {CACHED} in memory and 100 tasks in their queue");
        host.stop().await;
    });
}

/// Tasks in a sticky queue are not lost when the engine evicts runs.
#[test]
fn a_worker_gets_the_task_of_an_evicted_run() {
    block_on(async {
        let directory = TempDir::new().unwrap();
        let host = Host::start(&directory, Limits { cached_runs: 1, ..Limits::default() }).await;
        host.begin("w").await.unwrap();
        let task = host.workflow_task(false).await.unwrap();
        assert!(poll!(Box::pin(host.task_of_kept_run())).is_pending());
        host.keep(&task).await;

        host.signal("w", "news").await.unwrap();
        for other in ["a", "b", "c"] {
            host.begin(other).await.unwrap();
        }
        let task = host.task_of_kept_run().await.unwrap();
        assert_eq!(workflow_of(&task), "w");
        host.decide(&task, vec![complete()]).await.unwrap();
        host.stop().await;
    });
}

/// Runs are evicted as early as possible, so that every write races with an eviction.
#[test]
fn a_run_is_not_evicted_while_it_is_being_written() {
    block_on(async {
        let directory = TempDir::new().unwrap();
        let host = Host::start(&directory, Limits { cached_runs: 1, queued_tasks: 1, ..Limits::default() }).await;
        let load = Load::begin(host.client(), 20, 4, 11);
        let (journal, mut evidence) = load.finish().await;
        host.stop().await;
        evidence.look_at_disk(&file(directory.path()));
        let facts = journal.facts();
        let findings = evidence.judge(&facts);
        println!("one run in memory, one task in each queue\n{}", findings.report(&facts));
        findings.demand();
    });
}

#[test]
fn requests_are_rejected_while_too_many_writes_wait() {
    const ROOM: usize = 10;
    block_on(async {
        let directory = TempDir::new().unwrap();
        let host = Host::start(&directory, Limits { waiting_writes: ROOM, ..Limits::default() }).await;
        host.begin("w").await.unwrap();
        let gate = host.disk.shut_gate();
        let mut first = Box::pin(host.signal("w", "first"));
        assert!(poll!(&mut first).is_pending());
        tokio::task::block_in_place(|| gate.arrived.recv()).unwrap();
        // The writer is busy with the first one; these are queued.
        let ids: Vec<String> = (0..ROOM).map(|n| n.to_string()).collect();
        let mut waiting: Vec<_> = ids.iter().map(|id| Box::pin(host.signal("w", id))).collect();
        for signal in &mut waiting {
            assert!(poll!(signal).is_pending());
        }
        assert!(is_unavailable(&host.signal("w", "one too many").await));
        gate.open.send(()).unwrap();
        first.await.unwrap();
        for signal in waiting {
            signal.await.unwrap();
        }
        host.signal("w", "one too many").await.unwrap();
        let signals = host.events("w").await.into_iter().filter(|kind| *kind == EventType::WorkflowExecutionSignaled);
        assert_eq!(signals.count(), ROOM + 2);
        host.stop().await;
    });
}
