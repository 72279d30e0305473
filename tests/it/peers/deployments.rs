//! Worker deployments on the engine and on the real server: the same programs, and everything they print compared.

use std::{
    process::Command,
    sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};

use crate::support::{
    node::{Programs, fixture, tool},
    process::Process,
    sdk_workers::queue,
    server::{self, Server},
};

/// The programs and the servers need the machine: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

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

fn python(program: &str) -> Command {
    let mut command = Command::new("python3");
    command.arg(fixture(program)).env("PYTHONPATH", tool("WINDLASS_PYTHON_SDK"));
    command
}

/// Runs a program on both servers at the same time; what the real server does is right.
fn same(command: impl Fn() -> Command + Sync) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let on = |server: &Server| lines(command(), &server.address, &queue("rollout"));
    let (expected, found) = std::thread::scope(|scope| {
        let real = scope.spawn(|| on(server::temporal()));
        let found = on(server::embedded());
        (real.join().unwrap(), found)
    });
    for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
        assert_eq!(found, expected, "line {number}");
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn requests_get_the_same_replies_and_runs_the_same_histories() {
    same(|| python("deployments/requests.py"));
}

#[test]
fn a_rollout_of_python_workers_is_the_same() {
    same(|| python("deployments/rollout.py"));
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
    let server = server::embedded();
    let name = queue("rollout");
    let programs = Programs::new("WINDLASS_NODE_TEMPORAL", &NODE_ROLLOUT);
    lines(programs.command("rollout.mjs"), &server.address, &name);
    let cli = |args: &[&str]| {
        let output = Command::new(&server.cli).args(args).args(["--address", &server.address]).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), printed + &String::from_utf8_lossy(&output.stderr))
    };
    let deployment = |action: &str, args: &[&str]| cli(&[&["worker", "deployment", action], args].concat());
    let of = ["--deployment-name", &name, "--yes"];
    let described = || -> Value {
        let (_, printed) = deployment("describe", &["--name", &name, "--output", "json"]);
        serde_json::from_str(&printed).unwrap()
    };
    assert!(deployment("list", &[]).1.contains(&name));
    assert_eq!(described()["routingConfig"]["currentVersionBuildID"], "2");

    let ramp = [&of[..], &["--build-id", "1", "--percentage", "25"]].concat();
    assert!(deployment("set-ramping-version", &ramp).0);
    let routing = described()["routingConfig"].clone();
    assert_eq!(json!([routing["rampingVersionBuildID"], routing["rampingVersionPercentage"]]), json!(["1", 25]));
    let no_ramp = [&of[..], &["--build-id", "1", "--delete"]].concat();
    assert!(deployment("set-ramping-version", &no_ramp).0);
    assert!(deployment("set-current-version", &[&of[..], &["--build-id", "1"]].concat()).0);
    let version = ["--deployment-name", name.as_str(), "--build-id", "2"];
    let (_, printed) = deployment("describe-version", &[&version[..], &["--output", "json"]].concat());
    let drained: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(drained["drainageInfo"]["drainageStatus"], "draining", "{drained}");
    let (deleted, printed) = deployment("delete-version", &version);
    assert!(!deleted && printed.contains("cannot be deleted since it is draining"), "{printed}");

    let filter =
        format!("TemporalWorkerDeploymentVersion = '{name}:1' AND TemporalWorkflowVersioningBehavior = 'Pinned'");
    let (_, printed) = cli(&["workflow", "list", "--query", &filter, "--output", "json"]);
    let listed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(listed[0]["type"]["name"], "pinned", "{listed}");

    let id = format!("{name}-moved");
    assert!(cli(&["workflow", "start", "--type", "pinned", "--task-queue", &name, "--workflow-id", &id]).0);
    let moved = ["--versioning-override-behavior", "pinned", "--versioning-override-deployment-name", &name];
    let moved = [&moved[..], &["--versioning-override-build-id", "2"]].concat();
    let (updated, printed) = cli(&[&["workflow", "update-options", "--workflow-id", &id], &moved[..]].concat());
    assert!(updated, "{printed}");
    let (_, printed) = cli(&["workflow", "describe", "--workflow-id", &id, "--output", "json"]);
    let run: Value = serde_json::from_str(&printed).unwrap();
    let given = &run["workflowExecutionInfo"]["versioningInfo"]["versioningOverride"]["pinned"]["version"];
    assert_eq!(given["buildId"], "2", "{run}");
    assert!(cli(&["workflow", "terminate", "--workflow-id", &id]).0);
}
