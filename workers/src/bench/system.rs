//! Facts from the operating system about processes, files and directories. A fact that is not available (there is no
//! `/proc` outside Linux) is `None`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// Ticks per second in `/proc/PID/stat`: the kernel's interface has 100 on every architecture this runs on.
const TICKS_PER_SECOND: u64 = 100;

/// The time processors have spent on a process and its threads.
pub(super) fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(Duration::from_millis(ticks(&stat)? * (1000 / TICKS_PER_SECOND)))
}

/// User and system time of a `stat` line. The command name may hold anything, so the fields count from its end.
fn ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    Some(field(11)? + field(12)?)
}

/// Bytes of a process that are in memory.
pub(super) fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Bytes of a database and of what SQLite keeps beside it.
pub(super) fn database_bytes(database: &Path) -> io::Result<u64> {
    let mut total = 0;
    for suffix in ["", "-wal", "-journal"] {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        total += match fs::metadata(PathBuf::from(name)) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
    }
    Ok(total)
}

/// The kind of file system under a directory, for example `ext4`.
pub(super) fn file_system(directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    mounted_under(&fs::read_to_string("/proc/self/mounts").ok()?, &directory)
}

fn mounted_under(mounts: &str, directory: &Path) -> Option<String> {
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((Path::new(words.next()?), words.next()?))
    });
    // The last mount on a point hides the ones before it.
    let over = mounted.filter(|(point, _)| directory.starts_with(point));
    over.max_by_key(|(point, _)| point.components().count()).map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_itself() {
        let me = std::process::id();
        assert!(cpu_time(me).is_some() && resident_bytes(me).is_some_and(|bytes| bytes > 1024 * 1024));
        assert_eq!((cpu_time(u32::MAX), resident_bytes(u32::MAX)), (None, None));
    }

    #[test]
    fn a_command_name_does_not_confuse_the_fields() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 17 5 0 0 20 0 1 0 5 1 1";
        assert_eq!(ticks(stat), Some(22));
        assert_eq!(ticks("42 (a) S 1"), None);
    }

    #[test]
    fn a_database_is_all_of_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("windlass.db");
        assert_eq!(database_bytes(&database).unwrap(), 0);
        for (name, bytes) in [("windlass.db", 10), ("windlass.db-wal", 5), ("windlass.db-shm", 100)] {
            fs::write(directory.path().join(name), vec![0; bytes]).unwrap();
        }
        assert_eq!(database_bytes(&database).unwrap(), 15);
    }

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/disk xfs rw 0 0\n";
        let found = ["/srv", "/tmp/x", "/tmp/disk/x"].map(|path| mounted_under(mounts, Path::new(path)));
        assert_eq!(found.map(Option::unwrap), ["ext4", "tmpfs", "xfs"]);
    }
}
