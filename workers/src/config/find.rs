//! Where `windlass.toml` is.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use windlass_core::file::FileError;

/// The name that is searched.
pub(super) const NAME: &str = "windlass.toml";

/// Which file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// None: only the built-in defaults.
    Nothing,
    /// This one. It must exist.
    File(PathBuf),
    /// `windlass.toml` in this directory or the nearest one above it that has one.
    SearchFrom(PathBuf),
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    #[error("{path} cannot be read: {error}", path = path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error(
        "{path} belongs to another user (uid {owner}), so it is not used: it could send your API keys to a server of its \
         choice; name it with --config if you trust it, or use --no-config",
        path = path.display()
    )]
    Foreign { path: PathBuf, owner: u32 },
    #[error(transparent)]
    Invalid(#[from] FileError),
}

impl Source {
    pub(super) fn find(&self) -> Result<Option<PathBuf>, ConfigError> {
        match self {
            Self::Nothing => Ok(None),
            Self::File(path) => Ok(Some(path.clone())),
            Self::SearchFrom(directory) => {
                let Some(path) = nearest_above(directory) else { return Ok(None) };
                // A directory above may be writable by others, such as /tmp.
                let owner = fs::metadata(&path).map_err(unreadable(&path))?.uid();
                if owner != 0 && owner != rustix::process::geteuid().as_raw() {
                    return Err(ConfigError::Foreign { path, owner });
                }
                Ok(Some(path))
            }
        }
    }
}

fn nearest_above(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().map(|directory| directory.join(NAME)).find(|path| path.is_file())
}

pub(super) fn read(path: &Path) -> Result<String, ConfigError> {
    fs::read_to_string(path).map_err(unreadable(path))
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> ConfigError {
    let path = path.to_owned();
    move |error| ConfigError::Unreadable { path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_file_above_the_working_directory_is_found() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        let search = |from: &Path| Source::SearchFrom(from.to_owned()).find().unwrap();
        assert_eq!(search(&deep), None);
        let (outer, inner) = (root.path().join(NAME), root.path().join("a/b").join(NAME));
        fs::write(&outer, "").unwrap();
        assert_eq!(search(&deep), Some(outer.clone()));
        fs::write(&inner, "").unwrap();
        assert_eq!(search(&deep), Some(inner));
        assert_eq!(search(root.path()), Some(outer));
        // A directory of that name is no file.
        fs::create_dir(deep.join(NAME)).unwrap();
        assert!(search(&deep).is_some_and(|path| path.is_file()));
    }

    #[test]
    fn a_file_that_is_named_must_exist() {
        let error = super::super::Config::load(&Source::File("no-such.toml".into())).unwrap_err().to_string();
        assert_eq!(error, "no-such.toml cannot be read: No such file or directory (os error 2)");
        assert!(super::super::Config::load(&Source::Nothing).is_ok());
    }
}
