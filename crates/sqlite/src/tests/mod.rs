//! The guarantees of the database, on a real disk and with injected faults.

mod at_once;
mod backups;
mod commits;
mod damage;
mod faults;
mod files;
mod syncs;
mod truncated_log;

use std::{
    path::{Path, PathBuf},
    sync::mpsc,
};

use rusqlite::Connection;
use tempfile::TempDir;

use crate::{Ack, Database, DatabaseError, Options, Result, Ticket, Tx};

const TABLES: &[&str] = &["CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE) STRICT"];

fn file(directory: &TempDir) -> PathBuf {
    directory.path().join("test.db")
}

fn open(options: Options) -> Database {
    let database = Database::open(options).unwrap();
    database.migrate("words", TABLES).unwrap();
    database
}

fn insert(sql: &Connection, word: &str) -> rusqlite::Result<()> {
    sql.prepare_cached("INSERT INTO words (word) VALUES (?1)")?.execute([word]).map(drop)
}

/// A fallible write that succeeds.
fn submit(database: &Database, ack: Ack, word: &'static str) -> Ticket<(), DatabaseError> {
    database.submit(ack, move |tx| Ok(insert(tx, word)?))
}

fn apply(database: &Database, ack: Ack, word: &'static str) -> Ticket<(), DatabaseError> {
    database.apply(ack, move |tx| insert(tx, word))
}

/// In the order of the writes.
fn words(database: &Database) -> Vec<String> {
    database.read_blocking(all_words).unwrap()
}

fn all_words(sql: &Connection) -> Result<Vec<String>> {
    let mut words = sql.prepare("SELECT word FROM words ORDER BY id")?;
    let words = words.query_map([], |row| row.get(0))?;
    Ok(words.collect::<rusqlite::Result<_>>()?)
}

/// The rows of files that were left behind, after an integrity check.
fn words_in(path: &Path) -> Vec<String> {
    let database = open(Options::new(path));
    let verdict: String = database
        .read_blocking::<_, DatabaseError>(|sql| Ok(sql.query_row("PRAGMA integrity_check", [], |row| row.get(0))?))
        .unwrap();
    assert_eq!(verdict, "ok");
    words(&database)
}

/// Blocks the writer inside a job, so that a test can queue writes behind it.
struct Gate {
    release: mpsc::Sender<()>,
    job: Ticket<(), DatabaseError>,
}

impl Gate {
    async fn close(database: &Database) -> Self {
        let (release, released) = mpsc::channel();
        let (entered, mut inside) = tokio::sync::mpsc::unbounded_channel();
        let job = database.submit(Ack::Relaxed, move |_: &Tx<'_>| {
            // When it is replayed, the test does not wait for it any more.
            if entered.send(()).is_ok() {
                released.recv().unwrap();
            }
            Ok(())
        });
        inside.recv().await.unwrap();
        Self { release, job }
    }

    async fn open(self) {
        self.release.send(()).unwrap();
        self.job.await.unwrap();
    }
}
