//! `cargo xtask test`: everything a change must pass, cheapest first.

use std::process::Command;

use anyhow::Result;

use crate::{
    cargo::{Profile, cargo, program, run as run_command},
    conformance, load, previous, schemathesis,
    steps::Steps,
    tidy, tools,
};

/// Tests of runs, for both backends. The others compare the backends, or test one of them.
const EITHER_BACKEND: [&str; 11] = [
    "bench::",
    "runs::",
    "cli::",
    "stock_cli::",
    "proofs::chaos",
    "proofs::flat_history",
    "proofs::invariants",
    "proofs::long_wait",
    "replay::fresh",
    "tools::mixed",
    "tools::temporal",
];

pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    let cargo_step =
        |steps: &mut Steps, name, arguments: &[&str]| steps.step(name, || run_command(&mut cargo(arguments)));

    cargo_step(&mut steps, "format", &["fmt", "--all", "--check"])?;
    cargo_step(&mut steps, "clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    steps.step("tidy", tidy::run)?;
    steps.step("tools", tools::run)?;
    steps.step("worker of the previous release", || previous::worker().map(|_| ()))?;
    cargo_step(&mut steps, "doc tests", &["test", "--workspace", "--doc"])?;
    // Measurements are printed, also of tests that pass.
    cargo_step(&mut steps, "unit tests", &["test", "--workspace", "--lib", "--bins", "--", "--show-output"])?;
    // With the features of the whole workspace, so that no crate is compiled a second time.
    cargo_step(
        &mut steps,
        "engine tests",
        &["test", "--workspace", "--test", "archive", "--test", "deployments", "--test", "reset", "--test", "skipping"],
    )?;
    cargo_step(&mut steps, "build", &["build", "-p", "windlass"])?;
    steps.step("streams under load", load::short)?;
    steps.step("schemathesis", schemathesis::short)?;
    steps.step("conformance tests of MCP", conformance::on_existing_build)?;
    steps.step("integration tests, embedded engine", || {
        let mut suite = integration(&["--", "--show-output"])?;
        run_command(suite.args(EITHER_BACKEND).env("WINDLASS_IT_BACKEND", "embedded"))
    })?;
    steps.step("integration tests, real server", || run_command(&mut integration(&["--", "--show-output"])?))?;

    println!("{}", steps.summary());
    Ok(())
}

/// The integration test binary and its environment: the Temporal CLI, Temporal's Python SDK, the agent-runs SDKs, the
/// model vendors' SDKs, servers with their formats, MCP servers and the built `windlass`.
pub(crate) fn integration(arguments: &[&str]) -> Result<Command> {
    let mut command = cargo(&["test", "-p", "windlass-tests", "--test", "it"]);
    command
        .args(arguments)
        .env("WINDLASS_TEMPORAL_CLI", tools::temporal_cli()?)
        .env("WINDLASS_BIN", program(Profile::Debug, "windlass"));
    command.env("WINDLASS_PREVIOUS_WORKER", previous::worker()?);
    command.env("WINDLASS_PYTHON_SDK", tools::python_sdk()?).env("WINDLASS_AGENT_SDKS", tools::agent_sdks()?);
    command.env("WINDLASS_MODEL_SDKS", tools::model_sdks()?);
    command.env("WINDLASS_MCP_SERVERS", tools::mcp_servers()?).env("WINDLASS_MCP_PEERS", tools::mcp_peers()?);
    command.env("WINDLASS_NODE_TEMPORAL", tools::node_temporal()?).env("WINDLASS_NODE_A2A", tools::node_a2a()?);
    command.env("WINDLASS_LITELLM", tools::litellm()?).env("WINDLASS_AIMOCK", tools::aimock()?);
    Ok(command)
}
