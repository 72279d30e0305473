//! Files and directories that only their owner may read, because they contain conversations, keys and results.

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

const FILE: u32 = 0o600;
const DIRECTORY: u32 = 0o700;

/// Creates a directory and its missing parents with mode 700. An existing directory is not changed: it may be shared.
pub fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)
}

/// Options that create files with mode 600.
pub fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE);
    options
}

/// Removes the permissions of others from an existing file. The log reports the change or the failure.
pub fn tighten(path: &Path) {
    let Ok(found) = fs::metadata(path) else { return };
    let mode = found.permissions().mode() & 0o777;
    if mode & !FILE == 0 {
        return;
    }
    let path_shown = path.display();
    match fs::set_permissions(path, Permissions::from_mode(FILE)) {
        Ok(()) => {
            tracing::warn!("{path_shown} was readable by other users (mode {mode:o}); now only its owner may read it")
        }
        Err(error) => tracing::warn!(
            "{path_shown} is accessible to other users (mode {mode:o}), and its permissions could not be changed: {error}"
        ),
    }
}

/// Restricts a database file and the files that SQLite creates beside it to their owner. The files are not opened:
/// closing them would release the locks that SQLite holds in this process.
pub(crate) fn tighten_database(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut beside = path.as_os_str().to_owned();
        beside.push(suffix);
        tighten(Path::new(&beside));
    }
}
