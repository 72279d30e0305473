//! Programs that were made for the real server, on the engine's TCP port: the stock `temporal` CLI and a worker of
//! Temporal's Python SDK.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{
    process::Process,
    server::{self, Server},
};

/// The CLI and the worker, on one server and one task queue.
struct Desk {
    server: &'static Server,
    queue: String,
    _worker: Process,
}

impl Desk {
    fn open(server: &'static Server) -> Self {
        let queue = format!("python-{}", uuid::Uuid::now_v7().simple());
        let sdk = std::env::var_os("WINDLASS_PYTHON_SDK");
        let sdk = sdk.expect("WINDLASS_PYTHON_SDK names Temporal's Python SDK; `cargo xtask test` installs it");
        let mut command = Command::new("python3");
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/it/peers/worker.py")).args([&server.address, &queue]);
        command.env("PYTHONPATH", sdk).stdin(Stdio::piped());
        let worker = Process::spawn(command);
        worker.line(|line| line == "ready");
        Self { server, queue, _worker: worker }
    }

    fn temporal(&self, args: &[&str]) -> String {
        let output =
            Command::new(&self.server.cli).args(args).args(["--address", &self.server.address]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "temporal {args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    fn json(&self, args: &[&str]) -> Value {
        let text = self.temporal(&[args, &["--output", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("temporal {args:?}: {error}: {text}"))
    }

    fn start(&self, id: &str) -> Value {
        self.json(&[
            "workflow",
            "start",
            "--type",
            "Greeting",
            "--workflow-id",
            id,
            "--task-queue",
            &self.queue,
            "--input",
            "\"Ada\"",
        ])
    }

    fn status(&self, id: &str) -> Value {
        self.json(&["workflow", "describe", "--workflow-id", id])["workflowExecutionInfo"]["status"].clone()
    }

    /// The events of a workflow by their types.
    fn events(&self, id: &str) -> Vec<String> {
        let shown = self.json(&["workflow", "show", "--workflow-id", id]);
        let events = shown["events"].as_array().unwrap();
        events.iter().map(|event| event["eventType"].as_str().unwrap().to_owned()).collect()
    }

    /// Asks until the run waits for its approval: its activity, its timer and its child are behind it.
    fn await_child(&self, id: &str) {
        while !self.events(id).iter().any(|event| event == "EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED") {
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_stock_cli_controls_a_python_worker_on_the_engine() {
    let desk = Desk::open(server::embedded());
    let id = format!("greeting-{}", desk.queue);

    let started = desk.start(&id);
    assert_eq!((&started["workflowId"], &started["type"]), (&json!(id), &json!("Greeting")));
    desk.await_child(&id);
    assert_eq!(desk.status(&id), "WORKFLOW_EXECUTION_STATUS_RUNNING");

    let state = ["workflow", "query", "--workflow-id", &id, "--type", "state"];
    assert_eq!(desk.json(&state)["queryResult"], json!(["waiting"]));
    let invite = |guest: &str| {
        let input = json!(guest).to_string();
        desk.json(&["workflow", "update", "execute", "--workflow-id", &id, "--name", "invite", "--input", &input])
    };
    assert_eq!(invite("Bo")["result"], 1);
    assert_eq!(invite("Cy")["result"], 2);
    desk.temporal(&["workflow", "signal", "--workflow-id", &id, "--name", "approve", "--input", "\"Dan\""]);
    let result = desk.json(&["workflow", "result", "--workflow-id", &id]);
    assert_eq!(result["result"], "HELLO, ADA (Bo, Cy), says Dan");
    assert_eq!(desk.json(&state)["queryResult"], json!(["approved"]), "a closed run still answers");
    assert_eq!(desk.status(&id), "WORKFLOW_EXECUTION_STATUS_COMPLETED");

    let query = format!("WorkflowType = 'Greeting' AND WorkflowId = '{id}' AND ExecutionStatus = 'Completed'");
    let listed = desk.json(&["workflow", "list", "--query", &query]);
    let ids: Vec<&Value> = listed.as_array().unwrap().iter().map(|row| &row["execution"]["workflowId"]).collect();
    assert_eq!(ids, [&json!(id)]);
    assert_eq!(desk.json(&["workflow", "count", "--query", &query])["count"], "1");

    let events = desk.events(&id);
    for kind in
        ["ACTIVITY_TASK_COMPLETED", "TIMER_FIRED", "WORKFLOW_EXECUTION_UPDATE_COMPLETED", "WORKFLOW_EXECUTION_SIGNALED"]
    {
        assert!(events.contains(&format!("EVENT_TYPE_{kind}")), "{kind} in {events:?}");
    }

    // Back to its first decision: everything after it happens once more, and the signal comes along.
    desk.temporal(&["workflow", "reset", "--workflow-id", &id, "--type", "FirstWorkflowTask", "--reason", "again"]);
    let again = desk.json(&["workflow", "result", "--workflow-id", &id]);
    assert!(again["result"].as_str().unwrap().ends_with("says Dan"), "{again}");

    let cancelled = format!("{id}-cancelled");
    desk.start(&cancelled);
    desk.await_child(&cancelled);
    desk.temporal(&["workflow", "cancel", "--workflow-id", &cancelled]);
    let end = Command::new(&desk.server.cli)
        .args(["workflow", "result", "--workflow-id", &cancelled, "--address", &desk.server.address])
        .output()
        .unwrap();
    assert!(!end.status.success(), "a cancelled run has no result");
    assert_eq!(desk.status(&cancelled), "WORKFLOW_EXECUTION_STATUS_CANCELED");

    let terminated = format!("{id}-terminated");
    desk.start(&terminated);
    desk.temporal(&["workflow", "terminate", "--workflow-id", &terminated, "--reason", "enough"]);
    assert_eq!(desk.status(&terminated), "WORKFLOW_EXECUTION_STATUS_TERMINATED");
}

/// What the web UI asks for on its pages; none of it may be refused.
#[test]
fn the_requests_of_the_web_ui_are_answered() {
    let desk = Desk::open(server::embedded());
    let id = format!("ui-{}", desk.queue);
    desk.start(&id);
    desk.await_child(&id);
    let pages: [&[&str]; 11] = [
        &["operator", "cluster", "describe"],
        &["operator", "cluster", "system"],
        &["operator", "cluster", "health"],
        &["operator", "namespace", "list"],
        &["operator", "namespace", "describe", "default"],
        &["operator", "search-attribute", "list"],
        &["workflow", "list", "--limit", "5"],
        &["workflow", "count", "--query", "GROUP BY ExecutionStatus"],
        &["schedule", "list"],
        &["batch", "list"],
        &["worker", "deployment", "list"],
    ];
    for page in pages {
        desk.temporal(page);
    }
    desk.temporal(&["task-queue", "describe", "--task-queue", &desk.queue]);
    desk.temporal(&["workflow", "stack", "--workflow-id", &id]);
}
