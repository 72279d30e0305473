//! The stock `temporal` CLI on the engine and on the real server: cron, batches, search attributes, lists and namespaces.
//! Everything it prints must be equal.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::Desk;
use crate::support::{
    both::{assert_same, without},
    sdk_workers::queue,
    server::Server,
};

/// How long something may take that happens at all.
const PATIENCE: Duration = Duration::from_secs(90);

/// What depends on the moment or on the server.
const VARIES: [&str; 26] = [
    "activeClusterName",
    "capabilities",
    "closeTime",
    "clusters",
    "createTime",
    "customSearchAttributeAliases",
    "eventTime",
    "executionDuration",
    "executionTime",
    "firstRunId",
    "historySizeBytes",
    "id",
    "identity",
    "limits",
    "originalScheduledTime",
    "originalStartTime",
    "requestIdInfos",
    "rootExecution",
    "runExpirationTime",
    "runId",
    "scheduledTime",
    "startTime",
    "stateTransitionCount",
    "taskId",
    "versioningInfo",
    "workerDeploymentName",
];

/// What the CLI says to each start by cron.
const CRON_IS_OLD: &str = "Flag --cron has been deprecated, Use Schedules instead.\n";

/// The CLI in a namespace of one server, and what it has printed.
pub(super) struct Cli {
    server: &'static Server,
    namespace: String,
    /// Begins every name; the same length on all servers.
    pub(super) name: String,
    pub(super) lines: Vec<String>,
}

impl Cli {
    pub(super) fn new(server: &'static Server) -> Self {
        Self { server, namespace: "default".to_owned(), name: queue("cli"), lines: Vec::new() }
    }

    /// With a namespace of its own.
    fn with_namespace(server: &'static Server) -> Self {
        let mut cli = Self::new(server);
        cli.namespace.clone_from(&cli.name);
        cli.run(&["operator", "namespace", "create", "--retention", "72h"]);
        cli.await_ready();
        cli
    }

    /// Waits until all parts of the server know the namespace.
    pub(super) fn await_ready(&self) {
        self.until("the namespace", &["workflow", "count"], Value::is_object);
    }

    /// What a command prints, its errors too, without what is different on each server.
    fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new(&self.server.cli);
        command.args(args).args(["--address", &self.server.address, "--namespace", &self.namespace]);
        let output = command.args(["--output", "json"]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout) + &text(&output.stderr)).replace(CRON_IS_OLD, "")
    }

    fn plain(&self, printed: &str) -> String {
        let shown = match serde_json::from_str::<Value>(printed) {
            Err(_) => without_ids(printed),
            Ok(mut value) => {
                without(&mut value, &VARIES);
                value.to_string()
            }
        };
        shown.replace(&self.name, "NAME")
    }

    /// Runs a command, and keeps what it printed.
    pub(super) fn say(&mut self, args: &[&str]) {
        let printed = self.plain(&self.run(args));
        self.lines.push(format!("{}: {printed}", args.join(" ").replace(&self.name, "NAME")));
    }

    /// As [`Self::say`], in another namespace.
    pub(super) fn say_in(&mut self, namespace: &str, args: &[&str]) {
        let own = std::mem::replace(&mut self.namespace, namespace.to_owned());
        self.say(args);
        self.namespace = own;
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.run(args)).unwrap_or_default()
    }

    /// Repeats a command until what it prints fits.
    fn until(&self, what: &str, args: &[&str], fits: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let printed = self.run(args);
            let shown = serde_json::from_str(&printed).unwrap_or_default();
            if fits(&shown) {
                return shown;
            }
            assert!(Instant::now() < deadline, "{what} did not come: {args:?} printed {printed}");
        }
    }

    pub(super) fn counted(&self, query: &str, count: usize) {
        self.until(query, &["workflow", "count", "--query", query], |shown| {
            // A count of zero is left out.
            let shown = shown.as_object().map(|shown| shown.get("count").map_or("0", |count| count.as_str().unwrap()));
            shown == Some(count.to_string().as_str())
        });
    }

    /// Starts a run on a task queue without a worker.
    pub(super) fn start(&mut self, kind: &str, id: &str, more: &[&str]) {
        let queue = self.name.clone();
        let start = ["workflow", "start", "--type", kind, "--workflow-id", id, "--task-queue", &queue];
        self.say(&[&start, more].concat());
    }
}

/// Ids of runs and jobs in a text.
fn without_ids(text: &str) -> String {
    const LENGTH: usize = 36;
    let mut shown = text.to_owned();
    let mut at = 0;
    while let Some(part) = shown.get(at..) {
        match part.get(..LENGTH).filter(|part| uuid::Uuid::try_parse(part).is_ok()) {
            Some(_) => shown.replace_range(at..at + LENGTH, "ID"),
            None if part.is_empty() => break,
            None => {}
        }
        at += 1;
    }
    shown
}

/// The batch of a command with `--query`, until it has ended.
fn batch(cli: &mut Cli, args: &[&str]) -> String {
    let started = cli.json(&[args, &["--yes", "--reason", "test"]].concat());
    let job = started["batchJobId"].as_str().unwrap_or_else(|| panic!("{args:?}: {started}")).to_owned();
    let describe = ["batch", "describe", "--job-id", &job];
    let ended = |shown: &Value| shown["state"].as_str().is_some_and(|state| !state.contains("RUNNING"));
    let mut described = cli.until("the end of the batch", &describe, ended);
    without(&mut described, &["jobId", "startTime", "closeTime", "identity"]);
    cli.lines.push(format!("{}: {described}", args.join(" ")));
    // The next batch is refused while this one is in the list of open ones.
    cli.until("the list", &["batch", "list"], |shown| {
        shown.as_array().is_some_and(|jobs| !jobs.is_empty() && jobs.iter().all(ended))
    });
    job
}

#[test]
fn batches_by_the_cli_are_the_same() {
    assert_same(|server| {
        let mut cli = Cli::with_namespace(server);
        for id in ["a", "b", "c"] {
            cli.start("collecting", id, &[]);
        }
        let query = "WorkflowType = 'collecting' AND ExecutionStatus = 'Running'";
        cli.counted(query, 3);
        let job = batch(&mut cli, &["workflow", "signal", "--name", "append", "--input", "1", "--query", query]);
        let shown = cli.json(&["workflow", "show", "--workflow-id", "a"]);
        let signal = &shown["events"][2];
        cli.lines.push(
            json!([signal["eventType"], signal["workflowExecutionSignaledEventAttributes"]["signalName"]]).to_string(),
        );
        cli.say(&["batch", "describe", "--job-id", "absent"]);
        let too_late = cli.plain(&cli.run(&["batch", "terminate", "--job-id", &job, "--reason", "enough"]));
        cli.lines.push(too_late);
        batch(&mut cli, &["workflow", "cancel", "--query", "WorkflowId IN ('a', 'b')"]);
        batch(&mut cli, &["workflow", "terminate", "--query", query]);
        cli.counted(query, 0);
        for id in ["a", "b", "c"] {
            cli.say(&["workflow", "describe", "--workflow-id", id]);
        }
        batch(&mut cli, &["workflow", "delete", "--query", "WorkflowType = 'collecting'"]);
        cli.counted("", 0);
        cli.say(&["workflow", "describe", "--workflow-id", "a"]);
        let listed = cli.json(&["batch", "list"]);
        let states = listed.as_array().unwrap().iter().map(|job| job["state"].to_string());
        cli.lines.extend(states);
        cli.lines
    });
}

#[test]
fn lists_and_search_attributes_by_the_cli_are_the_same() {
    assert_same(|server| {
        let mut cli = Cli::with_namespace(server);
        let attributes = ["operator", "search-attribute"];
        let of_type = |name: &'static str, kind: &'static str| {
            [&attributes[..], &["create", "--name", name, "--type", kind]].concat()
        };
        let kinds = [
            ("Words", "Text"),
            ("Colour", "Keyword"),
            ("Size", "Int"),
            ("Weight", "Double"),
            ("Fresh", "Bool"),
            ("Picked", "Datetime"),
            ("Labels", "KeywordList"),
        ];
        for (name, kind) in kinds {
            cli.say(&of_type(name, kind));
            cli.counted(&format!("{name} IS NOT NULL"), 0);
        }
        cli.say(&of_type("Colour", "Keyword"));
        cli.say(&of_type("Colour", "Int"));
        cli.say(&of_type("WorkflowId", "Keyword"));
        let custom = |cli: &Cli| cli.json(&["operator", "search-attribute", "list"])["customAttributes"].to_string();
        let line = custom(&cli);
        cli.lines.push(line);

        let attribute = |pair: &'static str| ["--search-attribute", pair];
        cli.start(
            "Picking",
            "apple",
            &[&attribute("Colour=\"red\"")[..], &attribute("Size=1"), &["--memo", "by=\"Ada\""]].concat(),
        );
        cli.start(
            "Picking",
            "pear",
            &[attribute("Colour=\"green\""), attribute("Words=\"a big green pear\"")].concat(),
        );
        cli.start("Picking", "plum", &[attribute("Labels=[\"sweet\",\"ripe\"]"), attribute("Fresh=true")].concat());
        cli.start(
            "Eating",
            "cherry",
            &[attribute("Picked=\"2024-06-01T00:00:00Z\""), attribute("Weight=0.5")].concat(),
        );
        cli.start("Eating", "refused", &attribute("Taste=\"sour\""));
        cli.start("Eating", "refused", &attribute("Size=\"large\""));
        cli.counted("", 4);
        cli.say(&["workflow", "terminate", "--workflow-id", "apple", "--reason", "eaten"]);
        cli.counted("ExecutionStatus = 'Terminated'", 1);

        for query in [
            "",
            "Colour = 'red'",
            "Colour IN ('red', 'green') AND NOT Size = 1",
            "Colour STARTS_WITH 'gr'",
            "Words = 'big'",
            "Size BETWEEN 0 AND 5",
            "Weight < 1.5",
            "Fresh = true",
            "Labels = 'sweet'",
            "Picked < '2025-01-01T00:00:00Z'",
            "WorkflowType = 'Eating' OR ExecutionStatus = 'Terminated'",
            "CloseTime IS NULL",
            "Colour = 'red' ORDER BY StartTime",
            "GROUP BY ExecutionStatus",
            "GROUP BY Colour",
            "Taste = 'sour'",
            "Size = 'two'",
            "Colour",
        ] {
            cli.say(&["workflow", "list", "--query", query]);
            cli.say(&["workflow", "list", "--query", query, "--limit", "1"]);
            cli.say(&["workflow", "count", "--query", query]);
        }
        cli.say(&[&attributes[..], &["remove", "--name", "Size", "--yes"]].concat());
        cli.until("the removal", &["workflow", "count", "--query", "Size = 1"], Value::is_null);
        cli.say(&[&attributes[..], &["remove", "--name", "Size", "--yes"]].concat());
        cli.say(&["workflow", "count", "--query", "Size = 1"]);
        cli.say(&["workflow", "describe", "--workflow-id", "apple"]);
        let line = custom(&cli);
        cli.lines.push(line);
        cli.lines
    });
}

#[test]
fn namespaces_by_the_cli_are_the_same() {
    assert_same(|server| {
        let mut cli = Cli::new(server);
        cli.namespace.clone_from(&cli.name);
        let namespace = |args: &[&'static str]| [&["operator", "namespace"], args].concat();
        cli.say(&namespace(&["create", "--retention", "1m"]));
        let settings = ["create", "--retention", "48h", "--description", "of orders", "--email", "a@b.example"];
        cli.say(&namespace(&[&settings[..], &["--data", "team=orders"]].concat()));
        cli.say(&namespace(&["create", "--retention", "48h"]));
        cli.await_ready();
        cli.say(&namespace(&["describe"]));
        cli.say(&namespace(&["update", "--retention", "120h", "--description", "of all orders"]));
        cli.say(&namespace(&["describe"]));
        cli.say(&namespace(&["update", "--retention", "1m"]));
        cli.say(&namespace(&["update", "--data", "region=north"]));
        cli.say(&namespace(&["update", "--promote-global"]));
        // The dev server archives nothing, and neither does an engine without a directory for that.
        let uri = "file:///tmp/nowhere";
        cli.say(&namespace(&["update", "--history-archival-state", "enabled", "--history-uri", uri]));
        cli.say(&namespace(&["update", "--visibility-archival-state", "enabled", "--visibility-uri", uri]));
        cli.say(&["workflow", "list", "--archived"]);
        cli.say(&["workflow", "list", "--archived", "--query", "WorkflowType = 'order'"]);
        cli.say(&namespace(&["describe"]));
        let listed = cli.json(&namespace(&["list"]));
        let names = listed.as_array().unwrap().iter().filter(|it| it["namespaceInfo"]["name"] == cli.name.as_str());
        let count = names.count().to_string();
        cli.lines.push(count);

        cli.start("order", "one", &[]);
        cli.counted("", 1);
        let deleted = cli.run(&namespace(&["delete", "--yes"]));
        cli.lines.push(deleted.contains("-deleted-").to_string());
        cli.until("the deletion", &["workflow", "count"], Value::is_null);
        cli.say(&namespace(&["describe"]));
        cli.say(&["workflow", "count"]);
        cli.lines
    });
}

#[test]
fn runs_by_cron_of_the_cli_are_the_same() {
    assert_same(|server| {
        let desk = Desk::open(server);
        let mut cli = Cli { name: desk.queue.clone(), ..Cli::new(server) };
        let id = desk.queue.as_str();
        let start =
            ["workflow", "start", "--type", "Shout", "--task-queue", id, "--workflow-id", id, "--input", "\"a\""];
        cli.say(&[&start[..], &["--cron", "often"]].concat());
        cli.say(&[&start[..], &["--cron", "0 0 1 1 *", "--start-delay", "1m"]].concat());
        let started = cli.json(&[&start[..], &["--cron", "@every 1s"]].concat());
        let mut run = started["runId"].as_str().unwrap().to_owned();
        for _ in 0..2 {
            let show = ["workflow", "show", "--workflow-id", id, "--run-id", &run];
            let last = |shown: &Value| shown["events"].as_array().and_then(|events| events.last()).cloned();
            let ended = |shown: &Value| {
                last(shown).is_some_and(|event| event["eventType"] == "EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED")
            };
            let shown = cli.until("the end of the run", &show, ended);
            let events = shown["events"].as_array().unwrap().iter();
            let kinds: Vec<&Value> = events.map(|event| &event["eventType"]).collect();
            let first = &shown["events"][0]["workflowExecutionStartedEventAttributes"];
            let first: Vec<&Value> =
                ["cronSchedule", "initiator", "attempt", "lastCompletionResult", "input"].map(|key| &first[key]).into();
            let end = last(&shown).unwrap()["workflowExecutionCompletedEventAttributes"].clone();
            cli.lines.push(json!([kinds, first, end["result"]]).to_string());
            run = end["newExecutionRunId"].as_str().unwrap().to_owned();
        }
        cli.say(&["workflow", "terminate", "--workflow-id", id, "--reason", "enough"]);
        let described = cli.json(&["workflow", "describe", "--workflow-id", id]);
        cli.lines.push(described["workflowExecutionInfo"]["status"].to_string());
        cli.lines
    });
}
