//! Backups of a database that is in use, and restores.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tempfile::TempDir;

use super::{TABLES, file, insert, open, submit, words_in};
use crate::{Ack, BackupError, Options, Progress, Restored, backup, restore};

const KNOWN: [(&str, usize); 1] = [("words", TABLES.len())];

fn copy(from: &Path, to: &Path, force: bool) -> Result<u64, BackupError> {
    backup(from, to, force, &Arc::default())
}

fn put_back(from: &Path, to: &Path) -> Result<Restored, BackupError> {
    restore(from, to, &KNOWN, &Progress::default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_is_a_consistent_snapshot() {
    let (directory, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let database = open(Options::new(file(&directory)));
    submit(&database, Ack::Durable, "first").await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn({
        let (database, stop) = (database.clone(), Arc::clone(&stop));
        async move {
            let mut written = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                // Two rows that are always written together.
                let work = move |tx: &crate::Tx<'_>| {
                    insert(tx, &format!("a{written}"))?;
                    insert(tx, &format!("b{written}"))
                };
                database.apply(Ack::Durable, work).await.unwrap();
                written += 1;
            }
            written
        }
    });
    let target = elsewhere.path().join("backup.db");
    for _ in 0..5 {
        let (from, to) = (file(&directory), target.clone());
        tokio::task::spawn_blocking(move || copy(&from, &to, true).unwrap()).await.unwrap();
        let restored = TempDir::new().unwrap();
        assert_eq!(put_back(&target, &file(&restored)).unwrap().replaced, None);
        let words = words_in(&file(&restored));
        assert_eq!((words[0].as_str(), words.len() % 2), ("first", 1), "no half of a commit");
    }
    stop.store(true, Ordering::Relaxed);
    assert!(load.await.unwrap() > 0);
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1, "nothing else is left");
}

#[tokio::test]
async fn a_backup_overwrites_a_file_only_with_force() {
    let (directory, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let database = open(Options::new(file(&directory)));
    submit(&database, Ack::Durable, "word").await.unwrap();
    let target = elsewhere.path().join("backup.db");
    fs::write(&target, "precious").unwrap();
    assert!(matches!(copy(&file(&directory), &target, false), Err(BackupError::Exists(_))));
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    copy(&file(&directory), &target, true).unwrap();
    assert_eq!(words_in(&target), ["word"]);
}

#[tokio::test]
async fn a_restore_keeps_the_replaced_database_and_rejects_one_in_use() {
    let (directory, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = file(&directory);
    let database = open(Options::new(&path));
    submit(&database, Ack::Durable, "old").await.unwrap();
    let target = elsewhere.path().join("backup.db");
    copy(&path, &target, false).unwrap();
    submit(&database, Ack::Durable, "new").await.unwrap();
    assert!(matches!(restore_elsewhere(&target, &path), Some(75)), "another process has it open");
    // A killed process leaves a log.
    std::mem::forget(database);
    let crashed = TempDir::new().unwrap();
    for name in ["test.db", "test.db-wal"] {
        fs::copy(directory.path().join(name), crashed.path().join(name)).unwrap();
    }
    let replaced = put_back(&target, &file(&crashed)).unwrap().replaced.unwrap();
    assert_eq!(words_in(&file(&crashed)), ["old"]);
    assert_eq!(words_in(&replaced), ["old", "new"], "with its log");
}

/// SQLite's locks are per process, so another process has to try. Returns its exit code.
fn restore_elsewhere(backup: &Path, database: &Path) -> Option<i32> {
    let mut test = std::process::Command::new(std::env::current_exe().unwrap());
    test.args(["tests::backups::restores_for_another_test", "--exact", "--nocapture"]);
    test.env("WINDLASS_TEST_BACKUP", backup).env("WINDLASS_TEST_DATABASE", database);
    test.output().unwrap().status.code()
}

/// The other process of [`restore_elsewhere`]. Without the variables it does nothing.
#[test]
fn restores_for_another_test() {
    let path = |name: &str| std::env::var_os(name).map(std::path::PathBuf::from);
    let (Some(backup), Some(database)) = (path("WINDLASS_TEST_BACKUP"), path("WINDLASS_TEST_DATABASE")) else { return };
    let code = match put_back(&backup, &database) {
        Err(BackupError::InUse(_)) => 75,
        Err(_) => 1,
        Ok(_) => 0,
    };
    std::process::exit(code);
}

#[tokio::test]
async fn damaged_foreign_and_newer_backups_are_not_restored() {
    let (directory, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = file(&directory);
    let database = open(Options::new(&path));
    submit(&database, Ack::Durable, "kept").await.unwrap();
    let target = elsewhere.path().join("backup.db");
    copy(&path, &target, false).unwrap();
    database.close().await.unwrap();
    let whole = fs::read(&target).unwrap();

    let newer = restore(&target, &path, &[("words", 0)], &Progress::default()).unwrap_err().to_string();
    assert!(newer.contains("of a newer build"), "{newer}");
    let foreign = restore(&target, &path, &[("letters", 1)], &Progress::default()).unwrap_err().to_string();
    assert!(foreign.contains("not a Windlass database"), "{foreign}");
    for damaged in [Vec::new(), b"text".to_vec(), whole[..whole.len() / 2].to_vec()] {
        fs::write(&target, damaged).unwrap();
        let refused = put_back(&target, &path).unwrap_err();
        assert!(matches!(refused, BackupError::Unusable { .. }), "{refused}");
    }
    assert_eq!(words_in(&path), ["kept"]);
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["test.db"], "nothing is left of the attempts");
}
