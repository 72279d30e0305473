//! `cargo xtask record`: plays the demo in a real terminal, with a `kill -9` of its server, and draws it for the
//! README.

use std::process::Command;

use anyhow::Result;

use crate::{
    cargo::{Profile, cargo, program, root, run as run_command},
    tools,
};

pub(crate) fn run() -> Result<()> {
    run_command(&mut cargo(&["build", "--release", "-p", "windlass"]))?;
    let mut record = Command::new("python3");
    record
        .arg(root().join("xtask/record/demo.py"))
        .arg(program(Profile::Release, "windlass"))
        .arg(root().join("docs/images/demo.svg"));
    run_command(record.env("PYTHONPATH", tools::terminal()?))
}
