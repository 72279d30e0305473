//! The programs of the peers, built or installed under `target` if they are missing. Versions are exact.

use std::path::PathBuf;

use anyhow::Result;

use super::system::System;
use crate::{
    cargo::{cargo, root, run as run_command, target},
    tools,
};

/// What the sessions of the systems need.
#[derive(Debug, Default)]
pub(super) struct Installed {
    pub(super) restate_server: PathBuf,
    pub(super) langgraph: PathBuf,
    pub(super) temporal: PathBuf,
}

pub(super) fn all(systems: &[System]) -> Result<Installed> {
    let has = |system| systems.contains(&system);
    let mut installed = Installed::default();
    if systems.iter().any(|system| system.has_crate()) {
        // All of them: by themselves they would be built again with other features of what they share.
        let mut build = cargo(&["build", "--release", "--locked", "--manifest-path"]);
        build.arg(root().join("xtask/peers/Cargo.toml")).arg("--target-dir").arg(target().join("peers"));
        run_command(&mut build)?;
    }
    if has(System::Restate) {
        installed.restate_server = tools::restate_server()?;
    }
    if has(System::Langgraph) {
        installed.langgraph = tools::langgraph()?;
    }
    if has(System::Temporal) {
        installed.temporal = tools::temporal_cli()?;
    }
    Ok(installed)
}

/// A program of `xtask/peers`.
pub(super) fn program(name: &str) -> PathBuf {
    target().join("peers/release").join(name)
}
