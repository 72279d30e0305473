//! Files that are not databases, damaged databases, and damage that is found later.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use tempfile::TempDir;

use super::{Gate, all_words, file, insert, open, submit, words};
use crate::{Ack, Database, DatabaseError, ErrorKind, Options, examine};

const PAGE: usize = 4096;

/// A database of several pages, without a log.
async fn healthy(directory: &TempDir) -> PathBuf {
    let path = file(directory);
    let database = open(Options::new(&path));
    for number in 0..200 {
        let word = format!("{number:0>500}");
        database.apply(Ack::Relaxed, move |tx| insert(tx, &word)).await.unwrap();
    }
    database.close().await.unwrap();
    path
}

fn change(path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    edit(&mut bytes);
    fs::write(path, bytes).unwrap();
}

fn refusal(path: &Path) -> String {
    let error = Database::open(Options::new(path)).map(drop).unwrap_err();
    assert_ne!(error.kind(), ErrorKind::Unavailable, "{error}");
    error.to_string()
}

fn root_of(path: &Path, name: &str) -> usize {
    let sql = Connection::open(path).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    usize::try_from(sql.query_row(root, [name], |row| row.get::<_, i64>(0)).unwrap()).unwrap()
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_rejected_and_not_changed() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory);
    for (contents, said) in [("", "the file is empty"), ("notes, not a database", "this is not a SQLite database")] {
        fs::write(&path, contents).unwrap();
        let refused = refusal(&path);
        assert!(refused.contains(said) && refused.contains("windlass store restore FILE"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), contents);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was made beside it");
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let refused = refusal(&path);
    assert!(refused.contains("is a directory"), "{refused}");
}

#[tokio::test]
async fn damaged_pages_are_found_on_open() {
    let whole = fs::read(healthy(&TempDir::new().unwrap()).await).unwrap();
    type Edit = fn(&mut Vec<u8>, usize);
    let damages: [(&str, Edit); 6] = [
        ("cut at a page", |bytes, _| bytes.truncate(4 * PAGE)),
        ("cut in a page", |bytes, _| bytes.truncate(4 * PAGE + 100)),
        ("a page of zeros", |bytes, root| bytes[root..root + PAGE].fill(0)),
        ("a page of noise", |bytes, root| bytes[root..root + PAGE].fill(0x5a)),
        ("a header that forbids writing", |bytes, _| bytes[18] = 9),
        ("a schema that cannot be read", |bytes, _| bytes[100..PAGE].fill(0xff)),
    ];
    for (name, damage) in damages {
        let directory = TempDir::new().unwrap();
        let path = file(&directory);
        fs::write(&path, &whole).unwrap();
        let root = (root_of(&path, "words") - 1) * PAGE;
        change(&path, |bytes| damage(bytes, root));
        let damaged = fs::read(&path).unwrap();
        let refused = refusal(&path);
        assert!(refused.contains("windlass store restore FILE"), "{name}: {refused}");
        assert_eq!(fs::read(&path).unwrap(), damaged, "{name}: it is left for repair");
    }
}

#[tokio::test]
async fn a_file_without_a_table_or_its_version_is_rejected() {
    for (damage, said) in [
        ("DROP TABLE words", "words.id of the words is missing"),
        ("ALTER TABLE words RENAME COLUMN word TO vord", "column words.word of the words is missing"),
        ("DELETE FROM schema_versions", "the tables of the words exist, but their version is missing"),
        ("PRAGMA user_version = 0", "the tables of the words exist, but their version is missing"),
    ] {
        let directory = TempDir::new().unwrap();
        let path = healthy(&directory).await;
        Connection::open(&path).unwrap().execute_batch(damage).unwrap();
        let refused = Database::open(Options::new(&path)).unwrap().migrate("words", super::TABLES).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains(said) && refused.contains("windlass store restore FILE"), "{damage}: {refused}");
    }
}

#[tokio::test]
async fn a_damaged_or_lone_log_is_rejected_and_never_checkpointed() {
    let (directory, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (path, log) = (healthy(&directory).await, directory.path().join("test.db-wal"));
    let kept = fs::read(&path).unwrap();

    fs::write(&log, vec![0x5a; 10_000]).unwrap();
    let refused = refusal(&path);
    assert!(refused.contains("not a write-ahead log"), "{refused}");

    // An undamaged log with the pages of another database.
    let stranger = open(Options::new(file(&other)));
    submit(&stranger, Ack::Durable, "strange").await.unwrap();
    stranger.apply(Ack::Durable, |tx| insert(tx, &"x".repeat(100_000))).await.unwrap();
    fs::copy(other.path().join("test.db-wal"), &log).unwrap();
    if let Err(error) = Database::open(Options::new(&path)) {
        assert!(matches!(error, DatabaseError::Damaged { .. }), "{error}");
        assert_eq!(fs::read(&path).unwrap(), kept, "the log was not checkpointed");
    }

    fs::copy(other.path().join("test.db-wal"), &log).unwrap();
    fs::remove_file(&path).unwrap();
    let refused = refusal(&path);
    assert!(refused.contains("the file is missing, but its write-ahead log"), "{refused}");
}

#[tokio::test]
async fn a_probe_writes_syncs_and_reads_back_and_leaves_one_row() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let before = database.stats();
    database.probe().await.unwrap();
    let after = database.stats();
    assert_eq!((after.commits - before.commits, after.syncs - before.syncs), (1, 1));
    database.probe().await.unwrap();
    assert_eq!(database.stats().commits, after.commits, "the result is cached for a second");
    let rows = |sql: &Connection| {
        Ok::<_, DatabaseError>(sql.query_row("SELECT count(*) FROM schema_versions", [], |row| row.get::<_, i64>(0))?)
    };
    assert_eq!(database.read(rows).await.unwrap(), 2);
}

#[tokio::test]
async fn one_probe_at_a_time_waits_for_a_disk_that_hangs() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let gate = Gate::close(&database).await;
    let hangs = tokio::time::timeout(std::time::Duration::from_millis(20), database.probe()).await;
    assert!(hangs.is_err());
    assert_eq!(database.queued(), 1);
    assert_eq!(database.probe().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(database.queued(), 1, "no second write was queued");
    gate.open().await;
}

#[tokio::test]
async fn probes_fail_after_a_read_met_damage() {
    let directory = TempDir::new().unwrap();
    let path = healthy(&directory).await;
    let database = open(Options::new(&path));
    // The damage happens while the process runs.
    let root = (root_of(&path, "words") - 1) * PAGE;
    change(&path, |bytes| bytes[root..root + PAGE].fill(0x5a));
    let error = database.read(all_words).await.unwrap_err();
    assert!(matches!(error, DatabaseError::Damaged { .. }), "{error}");
    assert_eq!(database.probe().await, Err(error));
}

#[tokio::test]
async fn a_deep_check_finds_what_the_quick_check_misses() {
    let directory = TempDir::new().unwrap();
    let path = healthy(&directory).await;
    let looked = |path: &Path| examine::<DatabaseError>(path, |_| Ok(Vec::new())).unwrap();
    assert!(looked(&path).iter().all(|part| part.problems.is_empty() && part.more == 0));
    // An index that contradicts its table.
    let root = (root_of(&path, "sqlite_autoindex_words_1") - 1) * PAGE;
    change(&path, |bytes| bytes[root + PAGE - 20] ^= 1);
    drop(open(Options::new(&path)));
    let parts = looked(&path);
    assert!(!parts[0].problems.is_empty(), "{parts:?}");
}

#[tokio::test]
async fn a_new_database_file_is_never_visible_empty() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    submit(&database, Ack::Durable, "first").await.unwrap();
    assert_eq!(words(&database), ["first"]);
    let mut names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["test.db", "test.db-shm", "test.db-wal"], "nothing is left of its making");
}
