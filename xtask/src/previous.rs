//! A worker of the previous release, for the test of rolling deploys: built from its commit, once.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

use crate::cargo::{Profile, cargo, program, root, run, target};

/// The commit of the previous release. A release sets it to its own.
const COMMIT: &str = "323c259";

/// How the worker of that release opens its store, and how it opens one in Postgres. Processes of two releases share a store
/// only there, and that worker knows only SQLite.
const SQLITE: &str = r#"Arc::new(SqliteStore::open(Options::new(PathBuf::from(data_dir).join("windlass.db")))?)"#;
const POSTGRES: &str = r#"{
        let runtime = Box::leak(Box::new(tokio::runtime::Runtime::new()?));
        let options = windlass_store::postgres::Options::new(std::env::var("WINDLASS_IT_POSTGRES")?);
        Arc::new(runtime.block_on(windlass_store::postgres::PostgresStore::connect(options))?)
    }"#;

/// The program, built if it is missing. Dependencies are shared with this build through its target directory.
pub(crate) fn worker() -> Result<PathBuf> {
    let home = target().join("previous").join(format!("{COMMIT}-postgres"));
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
    let main = source.join("tests/it-worker/main.rs");
    let text = fs::read_to_string(&main)?;
    if !text.contains(SQLITE) {
        bail!("the worker of {COMMIT} opens its store in another way; adapt `SQLITE`, or remove it with `POSTGRES`");
    }
    fs::write(&main, text.replace(SQLITE, POSTGRES))?;
    run(cargo(&["build", "-p", "windlass-tests", "--bin", "it-worker", "--target-dir"])
        .arg(target())
        .current_dir(&source))?;
    // The next build of this workspace puts its own program there again.
    fs::copy(program(Profile::Debug, "it-worker"), &worker)?;
    Ok(worker)
}
