//! Programs in JavaScript, with packages that xtask installed.

use std::{os::unix::fs::symlink, path::PathBuf, process::Command};

use tempfile::TempDir;

/// Copies of programs of `tests/fixtures` in a directory with the packages they import: node looks for packages beside
/// the program.
pub(crate) struct Programs {
    dir: TempDir,
}

impl Programs {
    /// `variable` names the directory with the packages.
    pub(crate) fn new(variable: &str, fixtures: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        symlink(tool(variable).join("node_modules"), dir.path().join("node_modules")).unwrap();
        for fixture in fixtures {
            let path = self::fixture(fixture);
            std::fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("node");
        command.arg(self.dir.path().join(program));
        command
    }
}

/// A file of `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures")).join(name)
}

/// What xtask installed, by the variable that names it.
pub(crate) fn tool(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable);
    path.unwrap_or_else(|| panic!("{variable} is not set; `cargo xtask test` installs the tool and sets it")).into()
}
