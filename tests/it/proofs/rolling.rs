//! A rolling deploy: a worker of the previous release and a worker of this build share a task queue and a store in Postgres.
//! A SQLite file is never shared by two releases (ADR 0056).

use std::{path::Path, sync::Arc};

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use temporalio_client::UntypedWorkflow;
use windlass::temporal::pollers;
use windlass_core::{
    envelope::{Answer, AnswerBody, AnswerStatus, Tuning},
    ids::{AwaitId, RunId, WorkspaceId},
    message::{Content, Role},
    run::RunStatus,
    time::Millis,
};
use windlass_ops::{RunOps, StartRun};
use windlass_store::postgres::{Options, PostgresStore, testing::TestServer};

use super::scale;
use crate::support::{
    agent, block_on, calls, checks,
    process::Workshop,
    says, script, server,
    world::{client, scripts},
};

const TURNS: usize = 3;

#[test]
fn runs_cross_between_the_previous_release_and_this_build() {
    let previous = std::env::var_os("WINDLASS_PREVIOUS_WORKER")
        .expect("WINDLASS_PREVIOUS_WORKER names a worker of the previous release; `cargo xtask test` builds it");
    let deploy = Deploy { each: scale("WINDLASS_ROLLING_RUNS", 4), previous: Path::new(&previous) };
    block_on(deploy.roll());
}

struct Deploy<'a> {
    /// Runs that each phase starts.
    each: usize,
    previous: &'a Path,
}

impl Deploy<'_> {
    async fn roll(&self) {
        let mut workshop = Workshop::new(&server::shared().address, &scripts([("work", work())]));
        // Without a cache every workflow task may go to the other build, which replays what this one did.
        workshop.cached_runs = 0;
        let url = TestServer::shared().database().await.expose_secret().to_owned();
        workshop.environment = vec![("WINDLASS_IT_POSTGRES", url.clone())];
        // The tables are those of the previous release, and this build's when that release is already at work.
        let old = workshop.spawn_program(self.previous);
        self.until_polled(&workshop).await;
        let store = Arc::new(PostgresStore::connect(Options::new(url)).await.unwrap());
        let ops = RunOps::new(client().await, store, workshop.task_queue.clone(), WorkspaceId::new("rolling"));

        // Begun by the previous release, continued by both.
        let begun_by_old = self.start_and_wait_for_questions(&ops).await;
        let new = workshop.spawn();
        self.answer_and_finish(&ops, &begun_by_old).await;
        // Begun by both, continued by this build alone.
        let begun_by_both = self.start_and_wait_for_questions(&ops).await;
        let continued_by_both = self.start_and_wait_for_questions(&ops).await;
        self.answer_and_finish(&ops, &continued_by_both).await;
        let (old_id, new_id) = (old.identity(), new.identity());
        old.terminate();
        self.answer_and_finish(&ops, &begun_by_both).await;
        drop(new);

        let all = [begun_by_old, begun_by_both, continued_by_both].concat();
        let (mut forward, mut back) = (0, 0);
        for run in &all {
            let workers = workers_of(&ops, run).await;
            let follows = |first: &str, then: &str| workers.windows(2).any(|pair| pair == [first, then]);
            forward += usize::from(follows(&old_id, &new_id));
            back += usize::from(follows(&new_id, &old_id));
        }
        println!(
            "rolling deploy: {} runs, none failed; {forward} went from the previous release to this build, {back} back",
            all.len()
        );
        assert!(forward > 0 && back > 0, "runs cross in both directions");
    }

    /// Waits until the worker has opened its store, which it does before it polls.
    async fn until_polled(&self, workshop: &Workshop) {
        let client = client().await;
        for _ in 0..600 {
            let polled = pollers(&client, &workshop.task_queue).await;
            if polled.is_ok_and(|pollers| !pollers.workflows.is_empty()) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("the worker of the previous release does not poll");
    }

    async fn start_and_wait_for_questions(&self, ops: &RunOps) -> Vec<RunId> {
        let mut runs = Vec::new();
        for _ in 0..self.each {
            let tools = json!([
                {"name": "once"},
                {"name": "again"},
                {"name": "sign", "kind": "external", "expiresInMs": 600_000, "onExpiry": "deny"},
                {"name": "open", "kind": "external", "client": {"kind": "local"}, "readOnly": true},
            ]);
            let mut start = StartRun::new(agent("work", tools), "go");
            start.tuning = Some(Tuning { plan_retry_interval_ms: Some(Millis(100)), ..Tuning::default() });
            runs.push(ops.start(start).await.unwrap());
        }
        for run in &runs {
            wait_until_waiting(ops, run).await;
        }
        runs
    }

    async fn answer_and_finish(&self, ops: &RunOps, runs: &[RunId]) {
        for run in runs {
            let body = AnswerBody::Clarification { answer: "Oslo".to_owned() };
            let reply = ops.answer(run, &Answer::new(AwaitId::new("await-1"), "ann", body)).await.unwrap();
            assert_eq!(reply.status, AnswerStatus::Accepted, "{run}: {}", reply.message);
        }
        for run in runs {
            let output = tokio::time::timeout(std::time::Duration::from_secs(120), ops.result(run)).await;
            let output = output.expect("the run finishes").unwrap();
            assert_eq!((output.turns as usize, output.tool_calls as usize), (TURNS + 2, 2 * TURNS), "{run}");
            let row = ops.store().run(run).await.unwrap().unwrap();
            assert_eq!(row.status, RunStatus::Completed, "{run}");
            let transcript = ops.store().transcript(run, row.head).await.unwrap();
            checks::every_call_has_one_result(&transcript);
            checks::log_is_gapless_with_one_terminal_event_at_its_end(
                &ops.store().events(run, 0, 10_000).await.unwrap(),
            );
            let last = transcript.last().unwrap();
            assert_eq!((last.role, last.plain_text().as_str()), (Role::Assistant, "done: Oslo"));
            let results = transcript.iter().flat_map(|message| &message.parts);
            let results = results.filter(|part| matches!(part.content, Content::ToolResult { .. })).count();
            assert_eq!(results, 2 * TURNS, "{run}");
        }
    }
}

/// Turns with calls, one of them with arguments and a result above the inline limit, a question, and an answer.
fn work() -> Value {
    let mut turns: Vec<Value> = (0..TURNS)
        .map(|turn| {
            let text = "x".repeat(if turn == 1 { 5000 } else { 10 });
            calls(&[("once", json!({"n": turn})), ("again", json!({"text": text, "bytes": turn * 4000}))])
        })
        .collect();
    turns.insert(1, json!({"text": "Where?", "await": {"kind": "clarification", "question": "city?"}}));
    turns.push(says("done: {{last_user}}"));
    script(&turns)
}

async fn wait_until_waiting(ops: &RunOps, run: &RunId) {
    let store = ops.store();
    let mut watch = store.watch(run);
    for _ in 0..600 {
        if store.run(run).await.unwrap().is_some_and(|row| row.status == RunStatus::Waiting) {
            return;
        }
        let _ = tokio::time::timeout(std::time::Duration::from_millis(200), watch.changed()).await;
    }
    panic!("{run} does not wait");
}

/// The identities of the workers that executed a run's workflow tasks, in order. None of those tasks may have failed: a
/// worker that cannot follow what the other build did fails its task.
async fn workers_of(ops: &RunOps, run: &RunId) -> Vec<String> {
    let handle = ops.client().get_workflow_handle::<UntypedWorkflow>(run.to_string());
    let json = handle.fetch_history(Default::default()).to_json().await.unwrap();
    let history: Value = serde_json::from_slice(&json).unwrap();
    let events = history["events"].as_array().unwrap();
    let attributes = |name: &'static str| events.iter().filter_map(move |event| event["attributes"].get(name));
    let failed: Vec<&Value> = attributes("WorkflowTaskFailedEventAttributes").collect();
    assert_eq!(failed, Vec::<&Value>::new(), "{run}");
    let completed = attributes("WorkflowTaskCompletedEventAttributes");
    completed.filter_map(|task| task["identity"].as_str().map(str::to_owned)).collect()
}
