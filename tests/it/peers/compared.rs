//! Programs of Temporal's Python SDK that ask the real server and the engine the same, and compare the answers.

use crate::support::{both::python, server};

/// Runs a program with the addresses of both servers and these arguments. It prints what differs.
fn compare(program: &str, args: &[&str]) {
    let (real, engine) = (server::temporal(), server::embedded());
    let mut command = python(format!("{}/it/peers/{program}", env!("CARGO_MANIFEST_DIR")));
    let output = command.args([&real.address, &engine.address]).args(args).output().unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}:\n{printed}{errors}");
}

#[test]
fn random_visibility_queries_have_equal_answers() {
    for seed in ["1", "2"] {
        compare("visibility.py", &[seed, "250"]);
    }
}

#[test]
fn requests_about_namespaces_and_search_attributes_have_equal_answers() {
    compare("namespaces.py", &[]);
}
