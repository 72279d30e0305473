//! Programs of Temporal's Python SDK that ask the real server and the engine the same, and compare the answers.

use std::process::Command;

use crate::support::server;

/// Runs a program with the addresses of both servers and these arguments. It prints what differs.
fn compare(program: &str, args: &[&str]) {
    let sdk = std::env::var_os("WINDLASS_PYTHON_SDK");
    let sdk = sdk.expect("WINDLASS_PYTHON_SDK names Temporal's Python SDK; `cargo xtask test` installs it");
    let path = format!("{}/it/peers/{program}", env!("CARGO_MANIFEST_DIR"));
    let (real, engine) = (server::temporal(), server::embedded());
    let output = Command::new("python3")
        .arg(path)
        .args([&real.address, &engine.address])
        .args(args)
        .env("PYTHONPATH", sdk)
        .output()
        .unwrap();
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
