//! The database file: versions of components, other processes, the log.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Barrier, mpsc},
    thread,
    time::Duration,
};

use rusqlite::Connection;
use tempfile::TempDir;

use super::{TABLES, file, insert, open, submit, words, words_in};
use crate::{Ack, Database, DatabaseError, Options, Result};

const NUMBERS: &[&str] = &["CREATE TABLE numbers (n INTEGER PRIMARY KEY) STRICT"];
const NUMBERS_WITH_NAMES: &[&str] = &[NUMBERS[0], "ALTER TABLE numbers ADD COLUMN name TEXT"];

fn versions(database: &Database) -> Vec<(String, i64)> {
    let read = |sql: &Connection| -> Result<Vec<(String, i64)>> {
        let mut versions = sql.prepare("SELECT component, version FROM schema_versions ORDER BY component")?;
        let versions = versions.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(versions.collect::<rusqlite::Result<_>>()?)
    };
    database.read_blocking(read).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_owner_reads_a_database() {
    let directory = TempDir::new().unwrap();
    let home = directory.path().join("made/here");
    let path = home.join("words.db");
    let beside = |suffix: &str| home.join(format!("words.db{suffix}"));
    let modes = || ["", "-wal", "-shm"].map(|suffix| mode(&beside(suffix)));
    let database = open(Options::new(path.clone()));
    assert_eq!((mode(&home), modes()), (0o700, [0o600; 3]));
    drop(database);

    // As an earlier build left it.
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(&home, Permissions::from_mode(0o755)).unwrap();
    let _database = open(Options::new(path));
    assert_eq!((mode(&home), modes()), (0o755, [0o600; 3]));
}

#[test]
fn each_component_is_migrated_on_its_own() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    database.migrate("numbers", NUMBERS).unwrap();
    assert_eq!(versions(&database), [("numbers".to_owned(), 1), ("words".to_owned(), 1)]);
    drop(database);
    let database = open(Options::new(file(&directory)));
    let commits = database.stats().commits;
    database.migrate("numbers", NUMBERS_WITH_NAMES).unwrap();
    database.migrate("numbers", NUMBERS_WITH_NAMES).unwrap();
    assert_eq!(versions(&database), [("numbers".to_owned(), 2), ("words".to_owned(), 1)]);
    assert_eq!(database.stats().commits - commits, 1);
}

#[test]
fn a_schema_of_a_newer_build_is_rejected() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    database.migrate("numbers", NUMBERS_WITH_NAMES).unwrap();
    let newer = DatabaseError::NewerSchema { path: file(&directory), found: 2, supported: 1 };
    assert_eq!(database.migrate("numbers", NUMBERS), Err(newer));
}

#[test]
fn a_migration_that_fails_changes_nothing() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let failed = database.migrate("numbers", &["CREATE TABLE numbers (n INTEGER)", "CREATE TABLE words (n INTEGER)"]);
    assert!(matches!(failed, Err(DatabaseError::Refused { .. })), "{failed:?}");
    assert_eq!(versions(&database), [("words".to_owned(), 1)]);
    database.migrate("numbers", NUMBERS).unwrap();
}

#[test]
fn processes_may_open_a_new_file_at_the_same_time() {
    // The race window is microseconds, so it is tried many times.
    for _ in 0..20 {
        let directory = TempDir::new().unwrap();
        let (path, start) = (file(&directory), Barrier::new(6));
        thread::scope(|scope| {
            for (component, tables) in [("words", TABLES), ("numbers", NUMBERS)].repeat(3) {
                let (path, start) = (&path, &start);
                scope.spawn(move || {
                    start.wait();
                    Database::open(Options::new(path)).unwrap().migrate(component, tables).unwrap();
                });
            }
        });
        assert_eq!(versions(&open(Options::new(path))), [("numbers".to_owned(), 1), ("words".to_owned(), 1)]);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_symbolic_link_opens_the_same_database() {
    let directory = TempDir::new().unwrap();
    let elsewhere = TempDir::new().unwrap();
    let link = elsewhere.path().join("link.db");
    drop(open(Options::new(file(&directory))));
    std::os::unix::fs::symlink(file(&directory), &link).unwrap();
    let database = open(Options::new(&link));
    submit(&database, Ack::Durable, "linked").await.unwrap();
    assert!(database.stats().log_bytes > 0);
    drop(database);
    assert_eq!(words_in(&file(&directory)), ["linked"]);
}

#[tokio::test]
async fn checkpoints_during_writes_lose_nothing() {
    // A reader of the oldest snapshot keeps the log growing for a while.
    const WHILE_READ: usize = 600;
    const ENOUGH: usize = 6000;
    const BYTES: usize = 32 * 1024;
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    submit(&database, Ack::Durable, "first").await.unwrap();
    let (reading, began) = tokio::sync::oneshot::channel();
    let (release, released) = mpsc::channel::<()>();
    let reader = {
        let database = database.clone();
        thread::spawn(move || {
            database.read_blocking::<_, DatabaseError>(|sql| {
                let count =
                    |sql: &Connection| sql.query_row("SELECT count(*) FROM words", [], |row| row.get::<_, i64>(0));
                let before = count(sql)?;
                reading.send(()).unwrap();
                released.recv().unwrap();
                Ok((before, count(sql)?))
            })
        })
    };
    began.await.unwrap();
    let mut written = 1;
    loop {
        let word = format!("{written:0>BYTES$}");
        database.apply(Ack::Relaxed, move |tx| insert(tx, &word)).await.unwrap();
        written += 1;
        if written == WHILE_READ {
            release.send(()).unwrap();
        }
        // Every page was in the log once. If the log is smaller than the file, it has restarted.
        let stats = database.stats();
        if stats.log_bytes < stats.database_bytes {
            break;
        }
        assert!(written < ENOUGH, "{stats:?}");
    }
    assert!(written > WHILE_READ, "the reader needed the whole log");
    assert_eq!(reader.join().unwrap(), Ok((1, 1)));
    assert_eq!(words(&database).len(), written);
    drop(database);
    assert_eq!(words_in(&file(&directory)).len(), written);
}

#[tokio::test]
async fn an_idle_database_checkpoints_its_log() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    database.apply(Ack::Durable, |tx| insert(tx, &"x".repeat(2 << 20))).await.unwrap();
    assert!(database.stats().log_bytes > 2 << 20);
    let checkpointed = async {
        while database.stats().log_bytes > 0 {
            database.read(|_| Ok::<_, DatabaseError>(())).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), checkpointed).await.expect("the log is checkpointed");
    submit(&database, Ack::Durable, "more").await.unwrap();
    assert_eq!(words(&database).len(), 2);
}
