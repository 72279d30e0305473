//! The data directory and its lock.

use std::{
    fs::{self, File, TryLockError},
    io::Write as _,
    path::{Path, PathBuf},
    process,
};

use windlass_sqlite::private;

use crate::failure::{Failure, failed};

/// A locked data directory: no other `dev` serves from it.
#[derive(Debug)]
pub(super) struct Home {
    directory: PathBuf,
    /// Held while this process runs; the operating system releases it when the process ends.
    _lock: File,
}

impl Home {
    pub(super) fn lock(directory: &Path) -> Result<Self, Failure> {
        let unusable = |error: std::io::Error| failed(format!("{} cannot be used: {error}", directory.display()));
        private::create_directory(directory).map_err(unusable)?;
        let directory = directory.canonicalize().map_err(unusable)?;
        let path = directory.join("dev.lock");
        let mut lock =
            private::open_options().create(true).truncate(false).write(true).open(&path).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let owner = fs::read_to_string(&path).unwrap_or_default();
                return Err(failed(format!(
                    "{} is in use by another `windlass dev` (process {}); stop it, or set another --data-dir",
                    directory.display(),
                    owner.trim()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", process::id())).map_err(unusable)?;
        Ok(Self { directory, _lock: lock })
    }

    /// Absolute.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn database(&self) -> PathBuf {
        self.directory.join("temporal.db")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("temporal.log")
    }

    pub(super) fn pid_file(&self) -> PathBuf {
        self.directory.join("temporal.pid")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_is_locked_by_one_process() {
        let directory = tempfile::tempdir().unwrap();
        let first = Home::lock(directory.path()).unwrap();
        let refused = Home::lock(directory.path()).unwrap_err().to_string();
        let owner = format!("is in use by another `windlass dev` (process {})", process::id());
        assert!(refused.contains(&owner), "{refused}");
        drop(first);
        Home::lock(directory.path()).unwrap();
    }
}
