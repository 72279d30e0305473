//! `cargo xtask record`: plays commands in a real terminal and draws them: the demo with a `kill -9` of its server for the
//! README, and a local model for its guide.

use std::process::Command;

use anyhow::Result;

use crate::{
    cargo::{Profile, cargo, program, root, run as run_command},
    tools,
};

pub(crate) fn run() -> Result<()> {
    run_command(&mut cargo(&["build", "--release", "-p", "windlass"]))?;
    for name in ["demo", "models"] {
        let mut record = Command::new("python3");
        record
            .arg(root().join(format!("xtask/record/{name}.py")))
            .arg(program(Profile::Release, "windlass"))
            .arg(root().join(format!("docs/images/{name}.svg")));
        run_command(record.env("PYTHONPATH", tools::terminal()?).env("AIMOCK", tools::aimock()?))?;
    }
    Ok(())
}
