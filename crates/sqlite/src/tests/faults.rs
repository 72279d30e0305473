//! Commits that fail, full disks, and syncs that fail.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use rusqlite::{Connection, Error, ffi};
use tempfile::TempDir;

use super::{Gate, all_words, apply, file, insert, open, submit, words, words_in};
use crate::{Ack, Database, DatabaseError, ErrorKind, Faults, Options};

/// Fails the given number of commits and syncs, and limits the number of pages.
struct Disk {
    failing_commits: AtomicUsize,
    failing_syncs: AtomicUsize,
    pages: AtomicI64,
}

const PLENTY: i64 = 1_000_000;

impl Faults for Disk {
    fn before_batch(&self, sql: &Connection) -> rusqlite::Result<()> {
        sql.pragma_update_and_check(None, "max_page_count", self.pages.load(Ordering::SeqCst), |_| Ok(()))
    }

    fn before_commit(&self) -> rusqlite::Result<()> {
        if take_one(&self.failing_commits) {
            return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR), None));
        }
        Ok(())
    }

    fn before_sync(&self) -> io::Result<()> {
        if take_one(&self.failing_syncs) { Err(io::Error::other("a broken cable")) } else { Ok(()) }
    }
}

fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn unreliable(directory: &TempDir) -> (Arc<Disk>, Database) {
    let disk = Arc::new(Disk {
        failing_commits: AtomicUsize::new(0),
        failing_syncs: AtomicUsize::new(0),
        pages: AtomicI64::new(PLENTY),
    });
    let database = open(Options { faults: Some(disk.clone()), ..Options::new(file(directory)) });
    (disk, database)
}

#[tokio::test]
async fn a_failed_commit_fails_every_write_of_its_batch() {
    let directory = TempDir::new().unwrap();
    let (disk, database) = unreliable(&directory);
    submit(&database, Ack::Durable, "before").await.unwrap();
    let losses = Arc::new(AtomicUsize::new(0));
    database.on_failed_commit({
        let losses = Arc::clone(&losses);
        move || _ = losses.fetch_add(1, Ordering::SeqCst)
    });
    let gate = Gate::close(&database).await;
    let writes = [
        submit(&database, Ack::Durable, "a"),
        apply(&database, Ack::Durable, "b"),
        submit(&database, Ack::Relaxed, "c"),
        database.submit(Ack::Durable, |_| Err(DatabaseError::Refused { detail: "a mistake".to_owned() })),
    ];
    disk.failing_commits.store(1, Ordering::SeqCst);
    gate.open().await;
    for write in writes {
        assert_eq!(write.await, Err(DatabaseError::unavailable("commit", "Error code 10: disk I/O error")));
    }
    assert_eq!((losses.load(Ordering::SeqCst), words(&database)), (1, vec!["before".to_owned()]));

    // There is nothing to wait for, because nothing was committed.
    database.synced().await.unwrap();
    submit(&database, Ack::Durable, "after").await.unwrap();
    assert_eq!(words(&database), ["before", "after"]);
    drop(database);
    assert_eq!(words_in(&file(&directory)), ["before", "after"]);
}

#[tokio::test]
async fn a_write_that_saw_a_durable_one_is_not_acknowledged_if_the_commit_fails() {
    let directory = TempDir::new().unwrap();
    let (disk, database) = unreliable(&directory);
    for _ in 0..200 {
        disk.failing_commits.store(1, Ordering::SeqCst);
        let durable = database.submit_at_once(Ack::Durable, |tx| Ok::<_, DatabaseError>(insert(tx, "durable")?));
        let relaxed = database.submit_at_once(Ack::Relaxed, |tx| {
            let seen =
                tx.query_row("SELECT count(*) FROM words WHERE word = 'durable'", [], |row| row.get::<_, i64>(0))?;
            tx.execute("INSERT INTO words (word) VALUES (hex(randomblob(16)))", [])?;
            Ok::<_, DatabaseError>(seen)
        });
        let (durable, relaxed) = (durable.await, relaxed.await);
        assert!(durable.is_err());
        // It comes too late to be in the failed commit, or fails with it.
        assert!(!relaxed.is_ok_and(|seen| seen > 0));
    }
}

#[tokio::test]
async fn acknowledged_relaxed_writes_are_replayed_after_a_failed_commit() {
    let directory = TempDir::new().unwrap();
    let (disk, database) = unreliable(&directory);
    submit(&database, Ack::Relaxed, "told").await.unwrap();
    disk.failing_commits.store(3, Ordering::SeqCst);
    submit(&database, Ack::Durable, "lost").await.unwrap_err();
    // While acknowledged writes must be replayed, no write is acknowledged before the commit, and reads wait for it.
    submit(&database, Ack::Relaxed, "too early").await.unwrap_err();
    database.read(all_words).await.unwrap_err();
    // The next attempt succeeds, whether by a read or by a write.
    assert_eq!(database.read(all_words).await.unwrap(), ["told"]);
    submit(&database, Ack::Durable, "after").await.unwrap();
    drop(database);
    assert_eq!(words_in(&file(&directory)), ["told", "after"]);
}

#[tokio::test]
async fn acknowledged_writes_are_committed_again_without_a_new_write() {
    let directory = TempDir::new().unwrap();
    let (disk, database) = unreliable(&directory);
    submit(&database, Ack::Relaxed, "told").await.unwrap();
    disk.failing_commits.store(1, Ordering::SeqCst);
    submit(&database, Ack::Durable, "lost").await.unwrap_err();
    database.synced().await.unwrap();
    assert_eq!(database.read_committed_blocking(all_words).unwrap(), ["told"]);
}

#[tokio::test]
async fn a_full_disk_is_reported_and_loses_no_acknowledged_write() {
    let directory = TempDir::new().unwrap();
    let (disk, database) = unreliable(&directory);
    submit(&database, Ack::Durable, "before").await.unwrap();
    // SQLite interprets this as "the current size".
    disk.pages.store(1, Ordering::SeqCst);
    let fill = |sql: &Connection| -> rusqlite::Result<()> {
        insert(sql, "half")?;
        insert(sql, &"x".repeat(1 << 20))
    };

    // Alone, with others, and by an infallible write.
    let alone = database.submit(Ack::Durable, move |tx| Ok::<_, DatabaseError>(fill(tx)?)).await;
    let gate = Gate::close(&database).await;
    let neighbour = submit(&database, Ack::Durable, "neighbour");
    let among_others = database.submit(Ack::Durable, move |tx| Ok::<_, DatabaseError>(fill(tx)?));
    let successor = submit(&database, Ack::Durable, "successor");
    gate.open().await;
    let among_others = among_others.await;
    let decided = database.apply(Ack::Durable, move |tx| fill(tx)).await;
    let full = DatabaseError::DiskFull { detail: "database or disk is full".to_owned() };
    assert_eq!([alone, among_others, decided], [(); 3].map(|()| Err(full.clone())));
    for other in [neighbour.await, successor.await] {
        assert_eq!(other.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert_eq!(words(&database), ["before"]);

    disk.pages.store(PLENTY, Ordering::SeqCst);
    submit(&database, Ack::Durable, "after").await.unwrap();
    drop(database);
    assert_eq!(words_in(&file(&directory)), ["before", "after"]);
}

#[tokio::test]
async fn a_write_that_ignores_a_full_disk_fails_its_whole_batch() {
    let directory = TempDir::new().unwrap();
    let (disk, database) = unreliable(&directory);
    let gate = Gate::close(&database).await;
    let hiding = database.submit(Ack::Durable, |tx| {
        _ = insert(tx, &"x".repeat(1 << 20));
        Ok::<_, DatabaseError>(())
    });
    let successor = apply(&database, Ack::Durable, "successor");
    disk.pages.store(1, Ordering::SeqCst);
    gate.open().await;
    assert_eq!([hiding.await, successor.await], [(); 2].map(|()| Err(DatabaseError::transaction_aborted())));
    assert_eq!(words(&database), Vec::<String>::new());
}

#[tokio::test]
async fn after_a_failed_sync_all_writes_are_rejected() {
    let directory = TempDir::new().unwrap();
    let (disk, database) = unreliable(&directory);
    submit(&database, Ack::Durable, "safe").await.unwrap();
    let losses = Arc::new(AtomicUsize::new(0));
    database.on_failed_commit({
        let losses = Arc::clone(&losses);
        move || _ = losses.fetch_add(1, Ordering::SeqCst)
    });
    disk.failing_syncs.store(1, Ordering::SeqCst);
    let failed = DatabaseError::SyncFailed { detail: "a broken cable".to_owned() };
    assert_eq!(submit(&database, Ack::Durable, "unknown").await, Err(failed.clone()));
    assert_eq!(losses.load(Ordering::SeqCst), 1);
    // A later sync would succeed, and would not show what the failed one lost.
    assert_eq!(submit(&database, Ack::Durable, "later").await, Err(failed.clone()));
    assert_eq!(submit(&database, Ack::Relaxed, "later").await, Err(failed.clone()));
    assert_eq!(database.synced().await, Err(failed));
    // Reads continue.
    assert_eq!(database.read(all_words).await.unwrap().first().map(String::as_str), Some("safe"));
    drop(database);
    assert_eq!(words_in(&file(&directory))[0], "safe");
}
