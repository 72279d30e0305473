//! A lock that allows one engine per data directory. Two engines would give workers conflicting tasks.

use std::{
    fs::{self, File, TryLockError},
    io::Write as _,
    path::Path,
    process,
};

use windlass_sqlite::private;

use crate::engine::EngineError;

/// The exclusive lock of a data directory. The system releases it when the process ends.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Creates the directory if it is missing.
    pub fn acquire(directory: &Path) -> Result<Self, EngineError> {
        let path = directory.join("engine.lock");
        let failed = |reason| EngineError::Lock { path: path.clone(), reason };
        private::create_directory(directory).map_err(failed)?;
        let mut file = private::open_options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let owner = fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
                return Err(EngineError::InUse { path: directory.to_owned(), owner });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", process::id())).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_engine_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let first = DirectoryLock::acquire(directory.path()).unwrap();
        let refused = DirectoryLock::acquire(directory.path()).unwrap_err().to_string();
        let owner = format!("is in use by another engine (process {})", process::id());
        assert!(refused.contains(&owner), "{refused}");
        drop(first);
        DirectoryLock::acquire(directory.path()).unwrap();
    }
}
