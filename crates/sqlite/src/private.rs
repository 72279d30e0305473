//! Files and directories that only their owner may read: conversations, keys and results are in them.

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

const FILE: u32 = 0o600;
const DIRECTORY: u32 = 0o700;

/// Creates what is missing of a directory, for its owner alone. One that is there stays as it is: it may be shared.
pub fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)
}

/// To open files with; one that is created is its owner's alone.
pub fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE);
    options
}

/// Takes a file that is there away from everybody but its owner. The log says so, or why not.
pub fn tighten(path: &Path) {
    let Ok(found) = fs::metadata(path) else { return };
    let mode = found.permissions().mode() & 0o777;
    if mode & !FILE == 0 {
        return;
    }
    let path_shown = path.display();
    match fs::set_permissions(path, Permissions::from_mode(FILE)) {
        Ok(()) => tracing::warn!("{path_shown} was open to others (mode {mode:o}); now only its owner may read it"),
        Err(error) => tracing::warn!("{path_shown} is open to others (mode {mode:o}) and cannot be closed: {error}"),
    }
}

/// Makes a database file, and the files SQLite puts beside it, its owner's alone. A file that is there is not opened:
/// closing it again would release the locks that SQLite has on it in this process.
pub(crate) fn tighten_database(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut beside = path.as_os_str().to_owned();
        beside.push(suffix);
        tighten(Path::new(&beside));
    }
}
