//! The place of a measurement: backend, directory and task queue.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use windlass_store::sqlite::Durability;

use super::backend::Backend;
use crate::failure::{Failure, failed, usage};

/// The directory of all measurements of one command. A temporary one is removed when this is dropped.
#[derive(Debug)]
pub(super) enum Ground {
    Temporary(TempDir),
    Given(PathBuf),
}

impl Ground {
    /// The directory of --data-dir must be empty: other data would distort the figures, and it must not be deleted.
    pub(super) fn prepare(given: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = given else {
            let directory = tempfile::Builder::new().prefix("windlass-bench-").tempdir();
            let directory =
                directory.map_err(|error| failed(format!("cannot create a temporary directory: {error}")))?;
            return Ok(Self::Temporary(directory));
        };
        let unusable = |error: io::Error| usage(format!("{} cannot be used: {error}", path.display()));
        fs::create_dir_all(path).map_err(unusable)?;
        if fs::read_dir(path).map_err(unusable)?.next().is_some() {
            let shown = path.display();
            return Err(usage(format!("{shown} is not empty; remove --data-dir, or choose an empty directory")));
        }
        Ok(Self::Given(path.to_owned()))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::Given(path) => path,
        }
    }
}

/// The place of one measurement, not shared with others.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub(super) backend: Backend,
    pub(super) durability: Durability,
    pub(super) max_cached_runs: usize,
    pub(super) data_dir: PathBuf,
    pub(super) task_queue: String,
    /// Whether clients use the API instead of Temporal.
    pub(super) through_api: bool,
    /// Cancelled by Ctrl-C.
    pub(super) interrupted: CancellationToken,
}

impl Site {
    /// The run with this number.
    pub(super) fn run(&self, number: u32) -> windlass_core::ids::RunId {
        windlass_core::ids::RunId::new(format!("{}-{number}", self.task_queue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_directory_is_accepted() {
        let parent = tempfile::tempdir().unwrap();
        let new = parent.path().join("a/b");
        assert_eq!(Ground::prepare(Some(&new)).unwrap().path(), new);
        fs::write(new.join("windlass.db"), "").unwrap();
        let refusal = Ground::prepare(Some(&new)).unwrap_err().to_string();
        assert!(refusal.ends_with("is not empty; remove --data-dir, or choose an empty directory"), "{refusal}");
    }

    #[test]
    fn a_temporary_directory_is_deleted_when_dropped() {
        let ground = Ground::prepare(None).unwrap();
        let path = ground.path().to_owned();
        assert!(path.is_dir());
        drop(ground);
        assert!(!path.exists());
    }
}
