//! Bytes in directories.

use std::{fs, io, path::Path};

/// The lengths of all files below a directory, without those below folders of this name.
pub(super) fn bytes(directory: &Path, without: &str) -> io::Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // A file may be removed while the directory is read.
        let length = match entry.metadata() {
            Ok(_) if entry.file_name() == without => 0,
            Ok(metadata) if metadata.is_dir() => bytes(&entry.path(), without).or_else(gone)?,
            Ok(metadata) => metadata.len(),
            Err(error) => gone(error)?,
        };
        total += length;
    }
    Ok(total)
}

fn gone(error: io::Error) -> io::Result<u64> {
    if error.kind() == io::ErrorKind::NotFound { Ok(0) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_count_but_those_of_one_folder() {
        let directory = std::env::temp_dir().join(format!("windlass-xtask-bytes-{}", std::process::id()));
        fs::create_dir_all(directory.join("base/1")).unwrap();
        fs::create_dir_all(directory.join("pg_wal")).unwrap();
        for (file, length) in [("base/1/a", 10), ("b", 5), ("pg_wal/c", 100)] {
            fs::write(directory.join(file), vec![0; length]).unwrap();
        }
        assert_eq!((bytes(&directory, "pg_wal").unwrap(), bytes(&directory, "").unwrap()), (15, 115));
        fs::remove_dir_all(directory).unwrap();
    }
}
