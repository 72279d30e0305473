//! Programs that were made for the real server, on the engine's TCP port: the stock `temporal` CLI and a worker of
//! Temporal's Python SDK; programs with schedules.

mod cli;
mod compared;
mod deployments;
mod limits;
mod pauses;
mod schedules;
mod typescript;

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

/// What the CLI printed.
struct Printed {
    succeeded: bool,
    output: String,
    errors: String,
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

    fn run(&self, args: &[&str]) -> Printed {
        let output =
            Command::new(&self.server.cli).args(args).args(["--address", &self.server.address]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Printed { succeeded: output.status.success(), output: text(&output.stdout), errors: text(&output.stderr) }
    }

    fn temporal(&self, args: &[&str]) -> String {
        let Printed { succeeded, output, errors } = self.run(args);
        assert!(succeeded, "temporal {args:?}: {output}{errors}");
        output
    }

    fn json(&self, args: &[&str]) -> Value {
        parsed(args, &self.temporal(&[args, &["--output", "json"]].concat()))
    }

    /// A command that must fail: its error, and its output if it is JSON.
    fn failure(&self, args: &[&str]) -> (String, Value) {
        let Printed { succeeded, output, errors } = self.run(&[args, &["--output", "json"]].concat());
        assert!(!succeeded, "temporal {args:?} succeeded: {output}");
        (errors.trim().to_owned(), serde_json::from_str(&output).unwrap_or_default())
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

    /// The events of a workflow by their types, without `EVENT_TYPE_`. How many workflow tasks there are depends on
    /// timing, so their events are left out.
    fn events(&self, id: &str) -> Vec<String> {
        let shown = self.json(&["workflow", "show", "--workflow-id", id]);
        let events = shown["events"].as_array().unwrap().iter();
        let types = events.map(|event| event["eventType"].as_str().unwrap().replace("EVENT_TYPE_", ""));
        types.filter(|event| !event.starts_with("WORKFLOW_TASK_")).collect()
    }

    /// Waits until the run waits for its approval: its activity, its timer and its child have ended.
    fn await_child(&self, id: &str) {
        while !self.events(id).iter().any(|event| event == "CHILD_WORKFLOW_EXECUTION_COMPLETED") {
            std::thread::yield_now();
        }
    }
}

fn parsed(args: &[&str], text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("temporal {args:?}: {error}: {text}"))
}

fn invite<'a>(id: &'a str, guest: &'a str) -> [&'a str; 9] {
    ["workflow", "update", "execute", "--workflow-id", id, "--name", "invite", "--input", guest]
}

/// The events of a run up to the end of its child.
const UNTIL_CHILD_ENDED: [&str; 8] = [
    "ACTIVITY_TASK_SCHEDULED",
    "ACTIVITY_TASK_STARTED",
    "ACTIVITY_TASK_COMPLETED",
    "TIMER_STARTED",
    "TIMER_FIRED",
    "START_CHILD_WORKFLOW_EXECUTION_INITIATED",
    "CHILD_WORKFLOW_EXECUTION_STARTED",
    "CHILD_WORKFLOW_EXECUTION_COMPLETED",
];

const TWO_UPDATES: [&str; 4] = [
    "WORKFLOW_EXECUTION_UPDATE_ACCEPTED",
    "WORKFLOW_EXECUTION_UPDATE_COMPLETED",
    "WORKFLOW_EXECUTION_UPDATE_ACCEPTED",
    "WORKFLOW_EXECUTION_UPDATE_COMPLETED",
];

#[test]
fn the_stock_cli_controls_a_python_worker_on_the_engine() {
    let desk = Desk::open(server::embedded());
    let id = format!("greeting-{}", desk.queue);

    let started = desk.start(&id);
    let run_id = started["runId"].clone();
    assert!(run_id.as_str().is_some_and(|id| uuid::Uuid::parse_str(id).is_ok()), "{started}");
    let expected = json!({
        "workflowId": id, "runId": run_id, "type": "Greeting", "namespace": "default", "taskQueue": desk.queue,
    });
    assert_eq!(started, expected);
    desk.await_child(&id);
    assert_eq!(desk.status(&id), "WORKFLOW_EXECUTION_STATUS_RUNNING");
    let child = desk.json(&["workflow", "result", "--workflow-id", &format!("{id}-shout")]);
    assert_eq!((&child["status"], &child["result"]), (&json!("COMPLETED"), &json!("HELLO, ADA")));

    let state = ["workflow", "query", "--workflow-id", &id, "--type", "state"];
    assert_eq!(desk.json(&state)["queryResult"], json!(["waiting"]));
    let invited = ["\"Bo\"", "\"Cy\""].map(|guest| desk.json(&invite(&id, guest))["result"].clone());
    assert_eq!(invited, [json!(1), json!(2)]);
    let (error, _) = desk.failure(&invite(&id, "\"\""));
    assert_eq!(error, "Error: unable to update workflow: a guest has a name");
    desk.temporal(&["workflow", "signal", "--workflow-id", &id, "--name", "approve", "--input", "\"Dan\""]);
    let result = desk.json(&["workflow", "result", "--workflow-id", &id]);
    let greeting = json!("HELLO, ADA (Bo, Cy), says Dan");
    assert_eq!((&result["runId"], &result["status"], &result["result"]), (&run_id, &json!("COMPLETED"), &greeting));
    assert_eq!(desk.json(&state)["queryResult"], json!(["approved"]), "a closed run still answers");
    assert_eq!(desk.status(&id), "WORKFLOW_EXECUTION_STATUS_COMPLETED");
    let ends = ["WORKFLOW_EXECUTION_SIGNALED", "WORKFLOW_EXECUTION_COMPLETED"];
    let expected = [&["WORKFLOW_EXECUTION_STARTED"][..], &UNTIL_CHILD_ENDED, &TWO_UPDATES, &ends].concat();
    assert_eq!(desk.events(&id), expected);

    let query = format!("WorkflowType = 'Greeting' AND WorkflowId = '{id}' AND ExecutionStatus = 'Completed'");
    let listed = desk.json(&["workflow", "list", "--query", &query]);
    let rows = listed.as_array().unwrap().iter().map(|row| (&row["execution"], &row["type"]["name"], &row["status"]));
    let execution = json!({"workflowId": id, "runId": run_id});
    let completed = json!("WORKFLOW_EXECUTION_STATUS_COMPLETED");
    assert_eq!(rows.collect::<Vec<_>>(), [(&execution, &json!("Greeting"), &completed)]);
    assert_eq!(desk.json(&["workflow", "count", "--query", &query]), json!({"count": "1"}));

    // Back to its first workflow task: everything after it happens again, and updates and signal are reapplied.
    let reset = ["workflow", "reset", "--workflow-id", &id, "--type", "FirstWorkflowTask", "--reason", "again"];
    let new_run = desk.json(&reset)["runId"].clone();
    assert_ne!(new_run, run_id);
    let again = desk.json(&["workflow", "result", "--workflow-id", &id]);
    assert_eq!((&again["runId"], &again["status"], &again["result"]), (&new_run, &json!("COMPLETED"), &greeting));
    let reapplied = [
        "WORKFLOW_EXECUTION_STARTED",
        "WORKFLOW_EXECUTION_UPDATE_ADMITTED",
        "WORKFLOW_EXECUTION_UPDATE_ADMITTED",
        "WORKFLOW_EXECUTION_SIGNALED",
    ];
    let expected = [&reapplied[..], &TWO_UPDATES, &UNTIL_CHILD_ENDED, &["WORKFLOW_EXECUTION_COMPLETED"]].concat();
    assert_eq!(desk.events(&id), expected);

    let cancelled = format!("{id}-cancelled");
    desk.start(&cancelled);
    desk.await_child(&cancelled);
    desk.temporal(&["workflow", "cancel", "--workflow-id", &cancelled]);
    let (error, end) = desk.failure(&["workflow", "result", "--workflow-id", &cancelled]);
    assert_eq!((error.as_str(), &end["status"]), ("Error: workflow failed", &json!("CANCELED")), "{end}");
    assert_eq!(desk.status(&cancelled), "WORKFLOW_EXECUTION_STATUS_CANCELED");

    let terminated = format!("{id}-terminated");
    desk.start(&terminated);
    desk.temporal(&["workflow", "terminate", "--workflow-id", &terminated, "--reason", "enough"]);
    let (_, end) = desk.failure(&["workflow", "result", "--workflow-id", &terminated]);
    let close = &end["closeEvent"];
    let reason = &close["workflowExecutionTerminatedEventAttributes"]["reason"];
    assert_eq!((&close["eventType"], reason), (&json!("EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED"), &json!("enough")));
    assert_eq!(desk.status(&terminated), "WORKFLOW_EXECUTION_STATUS_TERMINATED");
}

/// The requests that the pages of the web UI make.
#[test]
fn the_requests_of_the_web_ui_are_answered() {
    let desk = Desk::open(server::embedded());
    let id = format!("ui-{}", desk.queue);
    let run_id = desk.start(&id)["runId"].clone();
    desk.await_child(&id);

    let cluster = desk.json(&["operator", "cluster", "describe"]);
    assert_eq!((&cluster["serverVersion"], &cluster["persistenceStore"]), (&json!("1.32.0"), &json!("sqlite")));
    assert_eq!(desk.json(&["operator", "cluster", "system"])["serverVersion"], "1.32.0");
    assert_eq!(desk.json(&["operator", "cluster", "health"]), json!({"status": "SERVING"}));

    let namespaces = desk.json(&["operator", "namespace", "list"]);
    let names: Vec<&Value> = namespaces.as_array().unwrap().iter().map(|it| &it["namespaceInfo"]["name"]).collect();
    assert!(names.contains(&&json!("default")), "{names:?}");
    let namespace = desk.json(&["operator", "namespace", "describe", "--namespace", "default"]);
    let info = &namespace["namespaceInfo"];
    assert_eq!((&info["name"], &info["state"]), (&json!("default"), &json!("NAMESPACE_STATE_REGISTERED")));

    let attributes = desk.json(&["operator", "search-attribute", "list"]);
    let system = &attributes["systemAttributes"];
    assert_eq!(
        (&system["WorkflowId"], &system["StartTime"], &system["BuildIds"]),
        (
            &json!("INDEXED_VALUE_TYPE_KEYWORD"),
            &json!("INDEXED_VALUE_TYPE_DATETIME"),
            &json!("INDEXED_VALUE_TYPE_KEYWORD_LIST")
        )
    );

    // Other tests have their runs on the same server.
    let ours = format!("RootWorkflowId = '{id}'");
    let listed = desk.json(&["workflow", "list", "--limit", "5", "--query", &ours]);
    let rows = listed.as_array().unwrap().iter();
    let rows: Vec<_> =
        rows.map(|row| (&row["execution"]["workflowId"], &row["status"], &row["rootExecution"])).collect();
    let (child, root) = (json!(format!("{id}-shout")), json!({"workflowId": id, "runId": run_id}));
    let (running, completed) =
        (json!("WORKFLOW_EXECUTION_STATUS_RUNNING"), json!("WORKFLOW_EXECUTION_STATUS_COMPLETED"));
    assert_eq!(rows, [(&json!(id), &running, &root), (&child, &completed, &root)]);
    let counted = desk.json(&["workflow", "count", "--query", &format!("{ours} GROUP BY ExecutionStatus")]);
    let group = |status: &str| json!({"groupValues": [status], "count": "1"});
    assert_eq!(counted["count"], "2");
    let groups = counted["groups"].as_array().unwrap();
    assert!(groups.len() == 2 && ["Running", "Completed"].iter().all(|it| groups.contains(&group(it))), "{counted}");

    let described = desk.json(&["task-queue", "describe", "--task-queue", &desk.queue]);
    let pollers = described["pollers"].as_array().unwrap();
    let mut polled: Vec<&str> = pollers.iter().filter_map(|poller| poller["taskQueueType"].as_str()).collect();
    polled.sort_unstable();
    polled.dedup();
    assert_eq!(polled, ["activity", "workflow"], "{described}");

    let stack = desk.json(&["workflow", "stack", "--workflow-id", &id])["queryResult"][0].clone();
    let task = format!("run (workflow: Greeting, id: {id}, run: {})", run_id.as_str().unwrap());
    assert!(stack.as_str().is_some_and(|stack| stack.contains(&task)), "{stack}");
}
