//! Programs of Temporal's TypeScript SDK, and their neighbours of the Python SDK, on the engine and on the real server:
//! they print the same.

use crate::support::{
    both::{assert_same, printed, python},
    node::{Programs, fixture},
    sdk_workers::queue,
};

/// A TypeScript program of `fixtures/temporal/peers`, with what all of them use.
pub(super) fn programs(program: &str) -> Programs {
    let files = ["common.mjs", "workflows.mjs", program].map(|file| format!("temporal/peers/{file}"));
    Programs::new("WINDLASS_NODE_TEMPORAL", &files.each_ref().map(String::as_str))
}

#[track_caller]
fn prints_the_same(program: &str) {
    let programs = programs(program);
    assert_same(|server| {
        let name = queue("node");
        let mut command = programs.command(program);
        command.args([&server.address, &name]);
        printed(command, &name)
    });
}

#[test]
fn runs_by_cron_are_the_same() {
    prints_the_same("cron.mjs");
}

#[test]
fn operated_activities_are_the_same() {
    prints_the_same("activities.mjs");
}

#[test]
fn batches_are_the_same() {
    prints_the_same("batches.mjs");
}

#[test]
fn batches_of_a_python_program_are_the_same() {
    assert_same(|server| {
        let name = queue("python");
        let mut command = python(fixture("temporal/peers/batches.py"));
        command.args([&server.address, &name]);
        printed(command, &name)
    });
}

#[test]
fn lists_and_search_attributes_are_the_same() {
    prints_the_same("visibility.mjs");
}

#[test]
fn namespaces_are_the_same() {
    prints_the_same("namespaces.mjs");
}
