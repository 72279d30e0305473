//! `cargo xtask deny`: licences, bans and sources of the dependencies, by the rules in `deny.toml`.

use std::{env, path::PathBuf, process::Command};

use anyhow::{Result, bail};

use crate::cargo::{cargo, root, run as run_command, target};

pub(crate) const USAGE: &str = "deny [--advisories]";

/// With `--advisories` also known vulnerabilities, which downloads the advisory database.
pub(crate) fn run(options: &[String]) -> Result<()> {
    let advisories: &[&str] = match options {
        [] => &[],
        [option] if option == "--advisories" => &["advisories"],
        _ => bail!("usage: cargo xtask {USAGE}"),
    };
    let mut command = Command::new(cargo_deny()?);
    command.current_dir(root()).args(["check", "bans", "licenses", "sources"]).args(advisories);
    run_command(&mut command)
}

/// The one on the path, or one in `target/`, which is built the first time.
fn cargo_deny() -> Result<PathBuf> {
    let on_path = Command::new("cargo-deny").arg("--version").output().is_ok_and(|output| output.status.success());
    if on_path {
        return Ok(PathBuf::from("cargo-deny"));
    }
    let home = target().join("tools");
    let binary = home.join("bin").join(format!("cargo-deny{}", env::consts::EXE_SUFFIX));
    if !binary.is_file() {
        run_command(cargo(&["install", "--locked", "cargo-deny", "--root"]).arg(&home))?;
    }
    Ok(binary)
}
