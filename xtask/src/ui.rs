//! A walk through Temporal's web UI on the engine, by `tests/it/peers/ui.sh`. It is no part of `test`: it needs root for a
//! network namespace, and Debian's packages nftables and chromium.

use std::process::Command;

use anyhow::Result;

use crate::{
    cargo::{Profile, cargo, program, root, run as run_command},
    tools,
};

pub(crate) fn run() -> Result<()> {
    run_command(&mut cargo(&["build", "-p", "windlass-tests", "--bin", "it-engine"]))?;
    let mut walk = Command::new("bash");
    walk.arg(root().join("tests/it/peers/ui.sh")).arg(program(Profile::Debug, "it-engine"));
    walk.arg(tools::temporal_cli()?).arg(tools::python_sdk()?).env("WINDLASS_PLAYWRIGHT", tools::playwright()?);
    run_command(&mut walk)
}
