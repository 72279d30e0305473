//! Three weeks of waiting for a person: it costs the worker no memory beyond its cache, survives the worker's death and
//! a new build of it, and uses up no budget.

use std::{process::Command, sync::Arc, time::Duration};

use serde_json::json;
use temporalio_client::UntypedWorkflow;
use temporalio_protos::temporal::api::{enums::v1::VersioningBehavior, history::v1::history_event::Attributes};
use windlass_core::{
    envelope::{Answer, AnswerBody, AnswerStatus, PolicyOverrides},
    event::EventBody,
    ids::{RunId, WorkspaceId},
    message::Message,
    time::Millis,
};
use windlass_ops::{RunOps, StartRun};

use super::scale;
use crate::support::{
    agent, block_on,
    process::Workshop,
    says, script, server,
    world::{client, open_store, scripts, within},
};

const THREE_WEEKS: u64 = 21 * 24 * 3600 * 1000;
const CACHED: usize = 20;

#[test]
fn a_three_week_wait_outlives_workers_and_builds() {
    let runs = scale("WINDLASS_PARKED_RUNS", 100);
    block_on(async {
        let question = json!({"kind": "clarification", "question": "Ship it?", "expires_in_ms": THREE_WEEKS});
        let turns = script(&[json!({"text": "Let me ask.", "await": question}), says("You said {{last_user}}.")]);
        let mut workshop = Workshop::new(&server::shared().address, &scripts([("wait", turns)]));
        workshop.cached_runs = CACHED;
        let store = Arc::new(open_store(workshop.dir.path()));
        let ops = RunOps::new(client().await, store, workshop.task_queue.clone(), WorkspaceId::new("wait"));

        let first = workshop.spawn_build(Some("build-1"));
        make_current(&workshop.task_queue, "build-1").await;
        let (few, many) = (CACHED, runs);
        let mut parked = park(&ops, few).await;
        let with_few = first.resident_bytes();
        parked.extend(park(&ops, many - few).await);
        let with_many = first.resident_bytes();

        let timer = timer_of(&ops, &parked[0]).await;
        let three_weeks = Duration::from_millis(THREE_WEEKS).as_secs() as i64;
        assert!((three_weeks - 60..=three_weeks).contains(&timer), "the wait is a durable timer: {timer} s");

        drop(first);
        let second = workshop.spawn_build(Some("build-2"));
        make_current(&workshop.task_queue, "build-2").await;
        // What parked runs cost a worker that has never worked on them.
        let fresh = second.resident_bytes();
        for run in &parked {
            let answer = Answer::new("await-1".into(), "ann", AnswerBody::Clarification { answer: "yes".into() });
            let reply = within("a reply", ops.answer(run, &answer)).await.unwrap();
            assert_eq!(reply.status, AnswerStatus::Accepted);
        }
        for run in &parked {
            let output = within("the run's end", ops.result(run)).await.unwrap();
            assert_eq!(output.final_message, Some(Message::assistant("You said yes.")));
            assert!(output.active_ms < Millis::from_secs(60), "waiting is not working: {:?}", output.active_ms);
        }
        let builds = builds_of(&ops, &parked[0]).await;
        let auto_upgrade = |build: &str| (build.to_owned(), VersioningBehavior::AutoUpgrade);
        assert_eq!(builds, ["build-1", "build-2"].map(auto_upgrade), "a run moves to the current build");
        drop(second);
        let growth = with_many.saturating_sub(with_few);
        println!(
            "long wait: {many} runs parked for three weeks with {CACHED} cached; worker at {:.1} MB with {few} parked, {:.1} MB with {many} ({} bytes of high-water mark for each run it worked on)\n\
             a fresh worker with {many} parked: {:.1} MB; worker killed, another build started, every run answered and completed; timer in history: {timer} s",
            with_few as f64 / 1e6,
            with_many as f64 / 1e6,
            growth / (many - few) as u64,
            fresh as f64 / 1e6,
        );
    });
}

/// Starts runs and waits until each has asked its question.
async fn park(ops: &RunOps, count: usize) -> Vec<RunId> {
    let mut runs = Vec::new();
    for _ in 0..count {
        let mut start = StartRun::new(agent("wait", json!([])), "go");
        start.policy =
            Some(PolicyOverrides { time_budget_ms: Some(Millis::from_secs(60)), ..PolicyOverrides::default() });
        runs.push(ops.start(start).await.unwrap());
    }
    for run in &runs {
        within("the question", async {
            let mut watch = ops.store().watch(run);
            loop {
                let events = ops.store().events(run, 0, 100).await.unwrap();
                if events.iter().any(|event| matches!(event.body(), Ok(EventBody::AwaitOpened { .. }))) {
                    return;
                }
                watch.changed().await;
            }
        })
        .await;
    }
    runs
}

/// Makes a build the one that runs are routed to, once its worker has introduced itself.
async fn make_current(deployment: &str, build: &str) {
    let server = server::shared();
    within("the build", async {
        loop {
            let set = Command::new(&server.cli)
                .args(["worker", "deployment", "set-current-version", "--yes", "--address", &server.address])
                .args(["--deployment-name", deployment, "--build-id", build])
                .output()
                .unwrap();
            if set.status.success() {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn timer_of(ops: &RunOps, run: &RunId) -> i64 {
    let seconds = history(ops, run).await.into_iter().find_map(|attributes| match attributes {
        Attributes::TimerStartedEventAttributes(timer) => timer.start_to_fire_timeout.map(|span| span.seconds),
        _ => None,
    });
    seconds.expect("a timer was started")
}

/// The builds that worked on a run, in order, with the versioning behaviour that their workers registered.
async fn builds_of(ops: &RunOps, run: &RunId) -> Vec<(String, VersioningBehavior)> {
    let mut builds: Vec<_> = history(ops, run)
        .await
        .into_iter()
        .filter_map(|attributes| match attributes {
            Attributes::WorkflowTaskCompletedEventAttributes(task) => {
                let behavior = task.versioning_behavior();
                task.deployment_version.map(|version| (version.build_id, behavior))
            }
            _ => None,
        })
        .collect();
    builds.dedup();
    builds
}

async fn history(ops: &RunOps, run: &RunId) -> Vec<Attributes> {
    let handle = ops.client().get_workflow_handle::<UntypedWorkflow>(run.to_string());
    let events = handle.fetch_history(Default::default()).into_events().await.unwrap();
    events.into_iter().filter_map(|event| event.attributes).collect()
}
