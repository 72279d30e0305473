//! Tools of kind `temporal`: activities and workflows of workers in other languages, on task queues of their own.

use std::collections::BTreeMap;

use prost::Message as _;
use serde_json::{Value, json};
use temporalio_client::UntypedWorkflow;
use temporalio_protos::temporal::api::enums::v1::EventType;
use windlass_core::{event::EventBody, ids::RunId};

use crate::support::{
    World, agent, block_on, calls, checks,
    project::Project,
    says, script,
    sdk_workers::{node_programs, node_worker, python_worker, queue},
    server::{self, Backend},
    tools::tally,
    world::scripts,
};

/// What a run's log says of each call, by tool.
fn results(events: &[Value]) -> BTreeMap<&str, Value> {
    let fields = |event: &Value| json!([event["status"], event["result"], event["error"]["message"]]);
    events.iter().map(|event| (event["name"].as_str().unwrap(), fields(event))).collect()
}

#[test]
fn an_activity_in_python_and_a_workflow_in_javascript_finish_although_their_workers_are_killed() {
    let (python, node) = (queue("python"), queue("node"));
    let definition = format!(
        r#"
id = "traveller"
model = "script:traveller"

[[tools]]
name = "forecast"
kind = "temporal"
timeout = "60s"
[tools.temporal]
activity = "forecast"
task_queue = "{python}"
heartbeat_timeout = "1s"
retry = {{ max_attempts = 3, initial_interval = "100ms" }}

[[tools]]
name = "journey"
kind = "temporal"
timeout = "60s"
[tools.temporal]
workflow = "journey"
task_queue = "{node}"
"#
    );
    let turn = calls(&[("forecast", json!({"city": "Oslo"})), ("journey", json!({"days": 3}))]);
    let scripts = scripts([("traveller", script(&[turn, says("done")]))]);
    let project = Project::start(Backend::chosen(), &[("traveller".to_owned(), definition)], &scripts);
    let address = project.temporal_address();
    let programs = node_programs();
    let in_python = python_worker(&address, &python);
    let in_node = node_worker(&programs, &address, &node, "2");

    project.run("traveller", "run-1");
    in_python.wait_for("forecast 1", 1);
    drop(in_python);
    in_node.wait_for("book 2 1", 1);
    drop(in_node);
    let in_python = python_worker(&address, &python);
    let in_node = node_worker(&programs, &address, &node, "none");
    in_python.wait_for("forecast 2", 1);
    in_node.wait_for("book 2 2", 1);
    let end = project.follow("run-1", "result");
    assert_eq!(end["subtype"], "success", "{end}");

    let begun = project.events("run-1", "tool_call");
    let begun = tally(begun.iter().map(|event| event["name"].as_str().unwrap()));
    assert_eq!(begun, BTreeMap::from([("forecast", 1), ("journey", 1)]));
    let ended = project.events("run-1", "tool_result");
    assert_eq!(ended.len(), 2, "{ended:?}");
    let forecast = json!({"city": "Oslo", "degrees": 12, "attempt": 2});
    let journey = json!({"booked": ["day 1", "day 2", "day 3"]});
    let expected = [("forecast", json!(["ok", forecast, null])), ("journey", json!(["ok", journey, null]))];
    assert_eq!(results(&ended), BTreeMap::from(expected));
    let transcript = project.json(&["runs", "transcript", "run-1"]).to_string();
    for result in [forecast, journey] {
        assert!(transcript.contains(&result.to_string()), "{result} is not in {transcript}");
    }
}

#[test]
fn an_activity_is_retried_after_windlass_and_its_worker_were_killed() {
    let python = queue("python");
    let definition = format!(
        r#"
id = "traveller"
model = "script:traveller"

[[tools]]
name = "forecast"
kind = "temporal"
timeout = "60s"
idempotent = true
[tools.temporal]
activity = "forecast"
task_queue = "{python}"
heartbeat_timeout = "1s"
"#
    );
    let turns = script(&[calls(&[("forecast", json!({"city": "Oslo"}))]), says("done")]);
    let agents = [("traveller".to_owned(), definition)];
    let mut project = Project::start(Backend::chosen(), &agents, &scripts([("traveller", turns)]));
    let worker = python_worker(&project.temporal_address(), &python);
    project.run("traveller", "run-1");
    worker.wait_for("forecast 1", 1);
    project.kill();
    drop(worker);
    project.start_again();
    let worker = python_worker(&project.temporal_address(), &python);
    worker.wait_for("forecast 2", 1);
    let end = project.follow("run-1", "result");
    assert_eq!(end["subtype"], "success", "{end}");
    assert_eq!(project.events("run-1", "tool_call").len(), 1);
    let forecast = json!({"city": "Oslo", "degrees": 12, "attempt": 2});
    let expected = BTreeMap::from([("forecast", json!(["ok", forecast, null]))]);
    assert_eq!(results(&project.events("run-1", "tool_result")), expected);
}

/// A tool that is an activity, with any other field of a tool.
fn activity(name: &str, queue: &str, fields: Value) -> Value {
    let mut tool = json!({
        "name": name,
        "kind": "temporal",
        "timeoutMs": 20_000,
        "temporal": {"activity": name, "taskQueue": queue, "heartbeatTimeoutMs": 1000},
    });
    tool.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    tool
}

/// A world whose script calls these tools at once.
async fn world_that_calls(turn: &[(&str, Value)]) -> World {
    World::new(scripts([("calls", script(&[calls(turn), says("done")]))])).await
}

/// What the log says of each call, by tool: its status, and the error's kind and message.
async fn errors(world: &World, run: &RunId) -> BTreeMap<String, Value> {
    let ended = world.bodies(run).await.into_iter().filter_map(|body| match body {
        EventBody::ToolResult { name, status, error, .. } => {
            let error = error.map(|error| json!([error.kind, error.message]));
            Some((name.to_string(), json!([status, error])))
        }
        _ => None,
    });
    ended.collect()
}

#[test]
fn a_failed_activity_is_a_tool_error_that_says_what_failed() {
    block_on(async {
        let (python, unpolled) = (queue("python"), queue("unpolled"));
        let turn = [
            ("refuse", json!({"city": "Atlantis"})),
            ("hang", json!({})),
            ("forecast", json!({"city": "Oslo"})),
            ("digest", json!({"text": "abc"})),
            ("again", json!({})),
        ];
        let world = world_that_calls(&turn).await;
        let short = json!({"timeoutMs": 1500});
        let text = json!({"outputSchema": {"type": "object", "properties": {"bytes": {"type": "string"}}}});
        let again =
            json!({"activity": "hang", "taskQueue": python, "retry": {"maxAttempts": 2, "initialIntervalMs": 50}});
        let tools = json!([
            activity("refuse", &python, json!({"idempotent": true})),
            activity(
                "hang",
                &python,
                json!({"timeoutMs": 1500, "temporal": {"activity": "hang", "taskQueue": python}})
            ),
            activity("forecast", &unpolled, short),
            activity("digest", &python, text),
            activity("again", &python, json!({"timeoutMs": 1000, "idempotent": true, "temporal": again})),
        ]);
        let worker = python_worker(&server::shared().address, &python);
        let (run, _) = world.answer_of(agent("calls", tools), "go").await;
        // Only the tool that is idempotent is executed again.
        worker.wait_for("hang 2", 1);
        let no_worker = format!("not executed: no worker polled the task queue {unpolled} in time");
        let unknown = "outcome unknown: the activity did not end in time; it may have taken effect";
        let schema = "the result of `digest` does not satisfy its output schema: /bytes: 3 is not of type \"string\"";
        let expected = [
            ("refuse", json!(["failed", ["tool_failed", "UnknownCity: there is no city Atlantis"]])),
            ("forecast", json!(["failed", ["timeout", no_worker]])),
            ("hang", json!(["outcome_unknown", ["outcome_unknown", unknown]])),
            ("digest", json!(["failed", ["tool_failed", schema]])),
            ("again", json!(["failed", ["timeout", unknown]])),
        ];
        assert_eq!(errors(&world, &run).await, expected.map(|(name, error)| (name.to_owned(), error)).into());
        checks::every_call_has_one_result(&world.transcript(&run).await);
    });
}

#[test]
fn large_arguments_arrive_whole_and_a_large_result_is_stored() {
    block_on(async {
        let python = queue("python");
        let text = "0123456789".repeat(5_000);
        let turn = [("digest", json!({"text": text})), ("large", json!({"letter": "x", "bytes": 50_000}))];
        let world = world_that_calls(&turn).await;
        let _worker = python_worker(&server::shared().address, &python);
        let tools = json!([activity("digest", &python, json!({})), activity("large", &python, json!({}))]);
        let (run, _) = world.answer_of(agent("calls", tools), "go").await;

        let transcript = serde_json::to_value(world.transcript(&run).await).unwrap();
        let results = transcript[2]["parts"].as_array().unwrap().iter().map(|part| &part["content"]);
        let sha256 = "ab8f07056f06af007b6920c695f8ce3a7ffcabbb0e7bdbee29867dbe49f7792b";
        let expected = [json!({"bytes": 50_000, "sha256": sha256}), json!({"text": "x".repeat(50_000)})];
        assert!(results.eq(&expected), "{transcript}");
        // The workflow reads the arguments and passes them on; the result is there because its worker sent it there.
        let handle = world.ops.client().get_workflow_handle::<UntypedWorkflow>(run.to_string());
        let events = handle.fetch_history(Default::default()).into_events().await.unwrap();
        let heavy = events.iter().filter(|event| event.encoded_len() > 4096).map(|event| event.event_type());
        let expected = [EventType::MarkerRecorded, EventType::ActivityTaskScheduled, EventType::ActivityTaskCompleted];
        assert_eq!(heavy.collect::<Vec<_>>(), expected);
    });
}

#[test]
fn a_cancelled_run_cancels_its_activity() {
    block_on(async {
        let python = queue("python");
        let world = world_that_calls(&[("watch", json!({}))]).await;
        let worker = python_worker(&server::shared().address, &python);
        let run = world.start(agent("calls", json!([activity("watch", &python, json!({}))])), "go").await;
        worker.wait_for("watch 1", 1);
        world.ops.cancel(&run, "enough").await.unwrap();
        worker.wait_for("cancelled", 1);
        world.result(&run).await.unwrap_err();
        let expected = json!(["cancelled", ["cancelled", "the call was cancelled"]]);
        assert_eq!(errors(&world, &run).await, BTreeMap::from([("watch".to_owned(), expected)]));
        checks::log_is_gapless_with_one_terminal_event_at_its_end(&world.events(&run).await);
    });
}

#[test]
fn a_failed_workflow_is_a_tool_error_that_says_what_failed() {
    block_on(async {
        let (node, unpolled) = (queue("node"), queue("unpolled"));
        let world = world_that_calls(&[("refuse", json!({"city": "Atlantis"})), ("lost", json!({}))]).await;
        let programs = node_programs();
        let _worker = node_worker(&programs, &server::shared().address, &node, "none");
        let workflow = |name: &str, queue: &str, timeout: u32| {
            let source = json!({"workflow": "refuse", "taskQueue": queue});
            json!({"name": name, "kind": "temporal", "timeoutMs": timeout, "temporal": source})
        };
        let tools = json!([workflow("refuse", &node, 20_000), workflow("lost", &unpolled, 1500)]);
        let (run, _) = world.answer_of(agent("calls", tools), "go").await;
        let unknown = format!(
            "outcome unknown: the workflow did not end in time; parts of it may have taken effect, if a worker polls the \
             task queue {unpolled}"
        );
        let expected = [
            ("refuse", json!(["failed", ["tool_failed", "UnknownCity: there is no city Atlantis"]])),
            ("lost", json!(["outcome_unknown", ["outcome_unknown", unknown]])),
        ];
        assert_eq!(errors(&world, &run).await, expected.map(|(name, error)| (name.to_owned(), error)).into());
    });
}

#[test]
fn heartbeats_of_an_activity_are_progress_of_its_call() {
    block_on(async {
        let (python, dir) = (queue("python"), tempfile::tempdir().unwrap());
        let until = dir.path().join("enough");
        let world = world_that_calls(&[("climb", json!({"steps": 3, "until": until}))]).await;
        let _worker = python_worker(&server::shared().address, &python);
        let run = world.start(agent("calls", json!([activity("climb", &python, json!({}))])), "go").await;
        let arrived =
            world.event(&run, |body| matches!(body, EventBody::ToolProgress { progress: Some(3.0), .. })).await;
        let expected = EventBody::ToolProgress {
            tool_use_id: "call-0-0".into(),
            name: "climb".into(),
            attempt: 1,
            message: Some("step 3".to_owned()),
            progress: Some(3.0),
            total: Some(3.0),
        };
        assert_eq!(arrived, expected, "it is shown while the call is running");
        std::fs::write(until, "").unwrap();
        world.result(&run).await.unwrap();
        let shown = world.bodies(&run).await.into_iter().filter(|body| *body == expected).count();
        assert_eq!(shown, 1, "what does not change is shown once");
        checks::log_is_gapless_with_one_terminal_event_at_its_end(&world.events(&run).await);
    });
}
