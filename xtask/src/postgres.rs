//! Postgres for the store's tests: the installed one, or Debian's packages.
//!
//! The tests start it themselves and search the same paths; see `crates/store/src/postgres/testing.rs`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use crate::cargo::run;

/// The directory of `initdb` and `postgres`, installed if it is missing.
pub(crate) fn binaries() -> Result<PathBuf> {
    if let Some(found) = find() {
        return Ok(found);
    }
    if Path::new("/usr/bin/apt-get").exists() {
        run(Command::new("apt-get").args(["install", "-y", "postgresql"]).env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    match find() {
        Some(found) => Ok(found),
        None => bail!("Postgres (`initdb` and `postgres`) is neither in PATH nor in /usr/lib/postgresql; install it"),
    }
}

fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let packaged = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let packaged = packaged.map(|version| version.path().join("bin"));
    env::split_paths(&path).chain(packaged).find(|directory| is_complete(directory))
}

fn is_complete(directory: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|name| directory.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_installation_is_not_used() {
        let directory = env::temp_dir().join(format!("windlass-xtask-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("initdb"), "").unwrap();
        assert!(!is_complete(&directory));
        fs::write(directory.join("postgres"), "").unwrap();
        assert!(is_complete(&directory));
        fs::remove_dir_all(directory).unwrap();
    }
}
