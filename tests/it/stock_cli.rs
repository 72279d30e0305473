//! The stock `temporal` CLI on agent runs: list, read and control.

use std::process::Command;

use serde_json::{Value, json};
use windlass_core::{event::EventBody, message::Message};

use crate::support::{
    World, agent, block_on, calls, says, script, server,
    world::{scripts, within},
};

/// Runs the CLI against the test server and returns what it prints.
fn temporal(args: &[&str]) -> String {
    let server = server::shared();
    let output = Command::new(&server.cli).args(args).args(["--address", &server.address]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "temporal {args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn temporal_json(args: &[&str]) -> Value {
    let text = temporal(&[args, &["--output", "json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("temporal {args:?}: {error}: {text}"))
}

#[test]
fn list_count_query_show_describe_and_signal_work() {
    block_on(async {
        let turns = [
            calls(&[("echo", json!({"n": 1}))]),
            json!({"await": {"kind": "clarification", "question": "Which city?"}}),
            says("Weather for {{last_user}}."),
        ];
        let world = World::new(scripts([("weather", script(&turns))])).await;
        let run = world.start(agent("weather", json!([{"name": "echo"}])), "weather please").await;
        world.opened(&run, 1).await;
        let id = run.as_str();

        // Visibility is eventually consistent on the real server, so the list is repeated until it contains the run.
        let query = format!("WindlassStatus = 'waiting' AND WindlassAgent = 'test.weather' AND WorkflowId = '{id}'");
        let listed = within("the list", async {
            loop {
                let listed = temporal_json(&["workflow", "list", "--query", &query]);
                if listed.as_array().is_some_and(|runs| !runs.is_empty()) {
                    return listed;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(listed[0]["type"]["name"], "windlass.run");
        assert_eq!(temporal_json(&["workflow", "count", "--query", &query]), json!({"count": "1"}));

        let status = temporal_json(&["workflow", "query", "--workflow-id", id, "--type", "windlass.status"]);
        assert_eq!(status["queryResult"][0]["status"], "waiting", "{status}");
        let awaits = temporal_json(&["workflow", "query", "--workflow-id", id, "--type", "windlass.awaits"]);
        let item = &awaits["queryResult"][0][0];
        assert_eq!(item["prompt"], "Which city?", "{awaits}");

        let shown = temporal(&["workflow", "show", "--workflow-id", id, "--detailed"]);
        for word in ["windlass.plan", "windlass.tool", "turn 0: ask the model", "record await_opened"] {
            assert!(shown.contains(word), "{word} is missing:\n{shown}");
        }
        let described = temporal(&["workflow", "describe", "--workflow-id", id]);
        assert!(described.contains("WindlassPhase"), "{described}");

        let answer = json!({"id": item["id"], "answer": "Oslo"}).to_string();
        let signal = ["--name", "windlass.provide_clarification", "--input", &answer];
        temporal(&[&["workflow", "signal", "--workflow-id", id], &signal[..]].concat());
        let output = world.result(&run).await.unwrap();
        assert_eq!(output.final_message, Some(Message::assistant("Weather for Oslo.")));
    });
}

#[test]
fn update_and_cancel_work() {
    block_on(async {
        let ask = || json!({"await": {"kind": "clarification", "question": "Which city?"}});
        let world = World::new(scripts([("twice", script(&[ask(), ask(), says("done")]))])).await;
        let run = world.start(agent("twice", json!([])), "go").await;
        let first = world.opened(&run, 1).await;
        let answer = json!({"awaitId": first.id, "actor": "ann", "body": {"kind": "clarification", "answer": "Oslo"}});
        let update = ["--name", "windlass.answer", "--input", &answer.to_string()].map(str::to_owned);
        let mut args = vec!["workflow", "update", "execute", "--workflow-id", run.as_str()];
        args.extend(update.iter().map(String::as_str));
        let reply = temporal_json(&args);
        assert_eq!(reply["result"]["status"], "accepted", "{reply}");
        world.opened(&run, 2).await;
        temporal(&["workflow", "cancel", "--workflow-id", run.as_str()]);
        world.event(&run, |body| matches!(body, EventBody::Cancelled { .. })).await;
    });
}

/// `docs/guides/temporal-tools.md`: one command signals all runs that a filter finds.
#[test]
fn a_batch_operation_signals_the_runs_of_a_filter() {
    block_on(async {
        let turns = [json!({"await": {"kind": "clarification", "question": "Which city?"}}), says("{{last_user}}")];
        let world = World::new(scripts([("many", script(&turns))])).await;
        let runs = [world.start(agent("many", json!([])), "a").await, world.start(agent("many", json!([])), "b").await];
        for run in &runs {
            world.opened(run, 1).await;
        }
        let query = format!("WorkflowId = '{}' OR WorkflowId = '{}'", runs[0], runs[1]);
        let pause = ["--name", "windlass.pause", "--input", r#"{"requestedBy": "ann"}"#];
        // The visibility store lags behind by a moment.
        within("the list", async {
            while temporal_json(&["workflow", "count", "--query", &query]) != json!({"count": "2"}) {
                tokio::task::yield_now().await;
            }
        })
        .await;
        // A namespace has one batch at a time, and other tests have theirs.
        let batch =
            [&["workflow", "signal", "--yes", "--reason", "maintenance", "--query", &query][..], &pause].concat();
        let started = within("the batch", async {
            loop {
                let server = server::shared();
                let output = Command::new(&server.cli).args(&batch).args(["--address", &server.address]).output();
                let output = output.unwrap();
                if output.status.success() {
                    return String::from_utf8_lossy(&output.stdout).into_owned();
                }
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(said.contains("Max concurrent batch operations is reached"), "{said}");
                tokio::task::yield_now().await;
            }
        })
        .await;
        let job = started.split_whitespace().find(|word| uuid::Uuid::try_parse(word).is_ok());
        let job = job.unwrap_or_else(|| panic!("a job id in: {started}"));
        for run in &runs {
            world.event(run, |body| matches!(body, EventBody::Paused { .. })).await;
        }
        let described = within("the end of the batch", async {
            loop {
                let described = temporal_json(&["batch", "describe", "--job-id", job]);
                if described["state"] == "BATCH_OPERATION_STATE_COMPLETED" {
                    return described;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        let counts = (&described["totalOperationCount"], &described["completeOperationCount"]);
        assert_eq!((counts, &described["reason"]), ((&json!("2"), &json!("2")), &json!("maintenance")), "{described}");
        within("the list of batches", async {
            while !temporal_json(&["batch", "list"]).to_string().contains(job) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    });
}
