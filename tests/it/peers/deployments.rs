//! Worker deployments on the engine and on the real server: the same programs, and everything they print compared.

use std::{
    process::Command,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{
    both::{assert_same, python},
    node::{Programs, fixture},
    process::Process,
    sdk_workers::queue,
    server::Server,
};

/// The programs and the servers need the machine: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

/// How long something may take that happens at all.
const PATIENCE: Duration = Duration::from_secs(90);

const NODE_ROLLOUT: [&str; 2] = ["deployments/rollout.mjs", "deployments/rollout-workflows.mjs"];

/// All lines of a program, up to its last one.
fn lines(mut command: Command, address: &str, name: &str) -> Vec<String> {
    command.args([address, name]);
    let program = Process::spawn(command);
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line| line != "end") {
        lines.push(program.line(|_| true));
    }
    lines
}

fn same(command: impl Fn() -> Command + Sync) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    assert_same(|server| lines(command(), &server.address, &queue("rollout")));
}

#[test]
fn requests_get_the_same_replies_and_runs_the_same_histories() {
    same(|| python(fixture("deployments/requests.py")));
}

#[test]
fn a_rollout_of_python_workers_is_the_same() {
    same(|| python(fixture("deployments/rollout.py")));
}

#[test]
fn a_rollout_of_typescript_workers_is_the_same() {
    let programs = Programs::new("WINDLASS_NODE_TEMPORAL", &NODE_ROLLOUT);
    same(|| programs.command("rollout.mjs"));
}

/// A rollout by the stock CLI: which builds there are, the routing, the drainage, and a run that is moved.
#[test]
fn the_stock_cli_operates_a_rollout() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let programs = Programs::new("WINDLASS_NODE_TEMPORAL", &NODE_ROLLOUT);
    assert_same(|server| operated(server, &programs));
}

/// What the CLI shows after each step.
fn operated(server: &Server, programs: &Programs) -> Vec<String> {
    let name = queue("rollout");
    lines(programs.command("rollout.mjs"), &server.address, &name);
    let cli = |args: &[&str]| {
        let output = Command::new(&server.cli).args(args).args(["--address", &server.address]).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), printed + &String::from_utf8_lossy(&output.stderr))
    };
    let done = |args: &[&str]| {
        let (succeeded, printed) = cli(args);
        assert!(succeeded, "{args:?}: {printed}");
    };
    // All parts of the real server know a change only after a moment.
    let until = |args: &[&str], fits: &dyn Fn(&Value) -> bool| -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, printed) = cli(&[args, &["--output", "json"]].concat());
            match serde_json::from_str(&printed).unwrap_or_default() {
                shown if fits(&shown) => return shown,
                _ => assert!(Instant::now() < deadline, "{args:?}: {printed}"),
            }
        }
    };
    let mut seen = Vec::new();
    let deployment = ["worker", "deployment"];
    let named = |action: &'static str, args: &[&'static str]| -> Vec<String> {
        let all = [&deployment, &[action, "--deployment-name", &name, "--yes"][..], args].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    let operate = |action, args: &[&'static str]| {
        let args = named(action, args);
        done(&args.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let describe = [&deployment[..], &["describe", "--name", &name]].concat();
    let routed = |key: &'static str, value: Value| until(&describe, &|shown| shown["routingConfig"][key] == value);
    until(&[&deployment[..], &["list"]].concat(), &|shown| shown.to_string().contains(&name));
    routed("currentVersionBuildID", json!("2"));

    operate("set-ramping-version", &["--build-id", "1", "--percentage", "25"]);
    let routing = routed("rampingVersionBuildID", json!("1"))["routingConfig"].clone();
    seen.push(json!([routing["rampingVersionBuildID"], routing["rampingVersionPercentage"]]).to_string());
    operate("set-ramping-version", &["--build-id", "1", "--delete"]);
    operate("set-current-version", &["--build-id", "1"]);
    let current = routed("currentVersionBuildID", json!("1"));
    let mut builds: Vec<String> = current["versionSummaries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| format!("{} {}", version["buildID"], version["drainageStatus"]))
        .collect();
    builds.sort_unstable();
    seen.extend(builds);
    let version = ["--deployment-name", name.as_str(), "--build-id", "2"];
    let describe_version = [&deployment[..], &["describe-version"], &version].concat();
    let draining = until(&describe_version, &|shown| shown["drainageInfo"]["drainageStatus"] == "draining");
    seen.push(draining["drainageInfo"]["drainageStatus"].to_string());
    let (deleted, printed) = cli(&[&deployment[..], &["delete-version"], &version].concat());
    assert!(!deleted, "{printed}");
    seen.push(printed.replace(&name, "NAME"));

    let filter =
        format!("TemporalWorkerDeploymentVersion = '{name}:1' AND TemporalWorkflowVersioningBehavior = 'Pinned'");
    let listed = until(&["workflow", "list", "--query", &filter], &|shown| !shown[0].is_null());
    seen.push(listed[0]["type"]["name"].to_string());

    let id = format!("{name}-moved");
    done(&["workflow", "start", "--type", "pinned", "--task-queue", &name, "--workflow-id", &id]);
    let moved = ["--versioning-override-behavior", "pinned", "--versioning-override-deployment-name", &name];
    let moved = [&moved[..], &["--versioning-override-build-id", "2"]].concat();
    done(&[&["workflow", "update-options", "--workflow-id", &id], &moved[..]].concat());
    let run = until(&["workflow", "describe", "--workflow-id", &id], &|shown| !shown.is_null());
    let given = &run["workflowExecutionInfo"]["versioningInfo"]["versioningOverride"]["pinned"]["version"];
    seen.push(given.to_string().replace(&name, "NAME"));
    done(&["workflow", "terminate", "--workflow-id", &id]);
    seen
}
