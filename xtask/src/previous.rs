//! A worker of the previous release, for the test of rolling deploys: built from its commit, once.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

use crate::cargo::{Profile, cargo, program, root, run, target};

/// The commit of the previous release. A release sets it to its own.
const COMMIT: &str = "323c259";

/// The program, built if it is missing. Dependencies are shared with this build through its target directory.
pub(crate) fn worker() -> Result<PathBuf> {
    let home = target().join("previous").join(COMMIT);
    let worker = home.join("it-worker");
    if worker.exists() {
        return Ok(worker);
    }
    let mut known = Command::new("git");
    known.current_dir(root()).args(["cat-file", "-e", &format!("{COMMIT}^{{commit}}")]);
    if !known.status().context("git could not be started")?.success() {
        bail!(
            "this clone has no commit {COMMIT}, the previous release; fetch the whole history: git fetch --unshallow"
        );
    }
    let source = home.join("source");
    fs::create_dir_all(&source)?;
    let archive = home.join("source.tar");
    run(Command::new("git").current_dir(root()).args(["archive", "--output"]).arg(&archive).arg(COMMIT))?;
    run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&source))?;
    // Cargo tells crates apart by their version and their place in the workspace; with the same version this build's crates
    // and those would overwrite each other.
    let manifest = source.join("Cargo.toml");
    fs::write(
        &manifest,
        fs::read_to_string(&manifest)?.replace("\nversion = \"0.1.0\"", "\nversion = \"0.0.0-previous\""),
    )?;
    run(cargo(&["build", "-p", "windlass-tests", "--bin", "it-worker", "--target-dir"])
        .arg(target())
        .current_dir(&source))?;
    // The next build of this workspace puts its own program there again.
    fs::copy(program(Profile::Debug, "it-worker"), &worker)?;
    Ok(worker)
}
