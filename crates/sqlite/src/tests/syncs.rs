//! Durable and relaxed writes: which of them wait for a sync.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Gate, all_words, file, insert, open, submit, words, words_in};
use crate::{Ack, Database, DatabaseError, Durability, Faults, Options, Ticket, writer::MAX_SYNC_DELAY};

/// A disk that asks the test before each sync, once it is slow.
struct Disk {
    slow: AtomicBool,
    asks: UnboundedSender<()>,
    may: Mutex<mpsc::Receiver<()>>,
}

impl Faults for Disk {
    fn before_sync(&self) -> io::Result<()> {
        if self.slow.load(Ordering::SeqCst) {
            self.asks.send(()).map_err(io::Error::other)?;
            self.may.lock().unwrap().recv().map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// A database with a slow disk. The sender is dropped first, so that the writer does not wait for it.
pub(super) struct Slow {
    pub(super) allow: mpsc::Sender<()>,
    pub(super) asked: UnboundedReceiver<()>,
    pub(super) database: Database,
    pub(super) directory: TempDir,
}

impl Slow {
    pub(super) fn open() -> Self {
        let directory = TempDir::new().unwrap();
        let (asks, asked) = unbounded_channel();
        let (allow, may) = mpsc::channel();
        let disk = Arc::new(Disk { slow: AtomicBool::new(false), asks, may: Mutex::new(may) });
        let database = open(Options { faults: Some(disk.clone()), ..Options::new(file(&directory)) });
        disk.slow.store(true, Ordering::SeqCst);
        Self { allow, asked, database, directory }
    }
}

#[tokio::test]
async fn a_durable_write_waits_for_the_sync_and_a_relaxed_one_does_not() {
    let mut slow = Slow::open();
    let gate = Gate::close(&slow.database).await;
    let written = submit(&slow.database, Ack::Relaxed, "written");
    let mut durable = submit(&slow.database, Ack::Durable, "durable");
    gate.open().await;
    written.await.unwrap();
    slow.asked.recv().await.unwrap();
    assert_eq!((durable.try_answer(), words(&slow.database)), (None, vec!["written".into(), "durable".into()]));
    slow.allow.send(()).unwrap();
    durable.await.unwrap();
}

#[tokio::test]
async fn a_sync_covers_everything_committed_before_it() {
    let mut slow = Slow::open();
    let before = slow.database.stats();
    let (tell, told) = unbounded_channel();
    let written = slow.database.submit(Ack::Relaxed, move |tx| {
        insert(tx, "written")?;
        let tell = tell.clone();
        tx.after_sync(move || tell.send("safe").unwrap());
        Ok::<_, DatabaseError>(())
    });
    let durable = submit(&slow.database, Ack::Durable, "durable");
    written.await.unwrap();
    assert!(told.is_empty());
    slow.asked.recv().await.unwrap();
    assert!(told.is_empty());
    slow.allow.send(()).unwrap();
    durable.await.unwrap();
    // The callback ran before the durable write was acknowledged, and by the same sync unless the relaxed write was due
    // before.
    assert_eq!(told.len(), 1);
    let after = slow.database.stats();
    assert!(after.syncs - before.syncs <= after.commits - before.commits);
}

#[tokio::test]
async fn a_relaxed_write_is_synced_without_a_later_write() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let before = database.stats();
    submit(&database, Ack::Relaxed, "lone").await.unwrap();
    database.synced().await.unwrap();
    assert_eq!(database.stats().syncs - before.syncs, 1);
    // Nothing is left to sync.
    database.synced().await.unwrap();
    assert_eq!(database.stats().syncs - before.syncs, 1);
}

#[tokio::test]
async fn a_relaxed_write_shares_the_commit_of_the_next_durable_one() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let before = database.stats();
    submit(&database, Ack::Relaxed, "one").await.unwrap();
    let undone = database.submit(Ack::Relaxed, |tx| {
        insert(tx, "undone")?;
        Err::<(), _>(DatabaseError::Refused { detail: "a change of mind".to_owned() })
    });
    undone.await.unwrap_err();
    submit(&database, Ack::Relaxed, "two").await.unwrap();
    submit(&database, Ack::Durable, "three").await.unwrap();
    let after = database.stats();
    // One commit, unless the relaxed write was due before.
    assert!(after.commits - before.commits <= after.syncs - before.syncs);
    assert_eq!(words(&database), ["one", "two", "three"]);
}

#[tokio::test]
async fn a_reader_sees_every_acknowledged_write() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    submit(&database, Ack::Relaxed, "one").await.unwrap();
    assert_eq!(words(&database), ["one"]);
    submit(&database, Ack::Relaxed, "two").await.unwrap();
    assert_eq!(database.read(all_words).await.unwrap(), ["one", "two"]);
    submit(&database, Ack::Relaxed, "three").await.unwrap();
    database.committed().await.unwrap();
    assert_eq!(database.read_committed_blocking(all_words).unwrap(), ["one", "two", "three"]);
}

#[tokio::test]
async fn a_write_that_a_reader_has_seen_survives_the_process() {
    let slow = Slow::open();
    submit(&slow.database, Ack::Relaxed, "written").await.unwrap();
    assert_eq!(words(&slow.database), ["written"]);
    // What a kill leaves: the database and its log as they are now, without the shared memory file.
    let crashed = TempDir::new().unwrap();
    for name in ["test.db", "test.db-wal"] {
        std::fs::copy(slow.directory.path().join(name), crashed.path().join(name)).unwrap();
    }
    assert_eq!(words_in(&file(&crashed)), ["written"]);
}

#[tokio::test]
async fn a_durable_write_without_changes_waits_for_the_writes_it_read() {
    let mut slow = Slow::open();
    submit(&slow.database, Ack::Relaxed, "written").await.unwrap();
    let mut repeat = slow.database.submit(Ack::Durable, |tx| {
        Ok::<_, DatabaseError>(tx.query_row("SELECT count(*) FROM words", [], |row| row.get::<_, i64>(0))?)
    });
    slow.asked.recv().await.unwrap();
    assert_eq!(repeat.try_answer(), None);
    drop(slow.allow);
    assert!(matches!(repeat.await, Err(DatabaseError::SyncFailed { .. })));
}

#[tokio::test]
async fn a_relaxed_database_syncs_nothing() {
    let directory = TempDir::new().unwrap();
    let database = open(Options { durability: Durability::Relaxed, ..Options::new(file(&directory)) });
    let (tell, told) = unbounded_channel();
    let write = database.submit(Ack::Durable, move |tx| {
        insert(tx, "relaxed")?;
        let tell = tell.clone();
        tx.after_sync(move || tell.send(()).unwrap());
        Ok::<_, DatabaseError>(())
    });
    write.await.unwrap();
    database.synced().await.unwrap();
    assert_eq!((told.len(), database.stats().syncs), (1, 0));
}

fn numbered(database: &Database, ack: Ack, number: u32) -> Ticket<(), DatabaseError> {
    database.apply(ack, move |tx| insert(tx, &number.to_string()))
}

/// From a write to its sync, the quickest of many: what the machine does meanwhile makes only some of them slow.
async fn quickest_sync(ack: Ack) -> Duration {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let mut quickest = Duration::MAX;
    for number in 0..20 {
        tokio::time::sleep(MAX_SYNC_DELAY).await;
        let begun = Instant::now();
        numbered(&database, ack, number).await.unwrap();
        database.synced().await.unwrap();
        quickest = quickest.min(begun.elapsed());
    }
    quickest
}

#[tokio::test]
async fn a_prompt_write_is_synced_at_once_and_a_relaxed_one_later() {
    let (prompt, relaxed) = (quickest_sync(Ack::Prompt).await, quickest_sync(Ack::Relaxed).await);
    assert!(prompt < MAX_SYNC_DELAY && relaxed >= MAX_SYNC_DELAY, "prompt {prompt:?}, relaxed {relaxed:?}");
}

#[tokio::test]
async fn a_prompt_write_does_not_wait_for_its_sync() {
    let mut slow = Slow::open();
    submit(&slow.database, Ack::Prompt, "prompt").await.unwrap();
    slow.asked.recv().await.unwrap();
    assert_eq!(words(&slow.database), ["prompt"]);
    slow.allow.send(()).unwrap();
    slow.database.synced().await.unwrap();
}

#[tokio::test]
async fn prompt_writes_cause_one_sync_in_ten_milliseconds_at_most() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let (before, begun) = (database.stats().syncs, Instant::now());
    for number in 0..300 {
        numbered(&database, Ack::Prompt, number).await.unwrap();
    }
    database.synced().await.unwrap();
    let (syncs, most) = (database.stats().syncs - before, begun.elapsed().as_millis() / MAX_SYNC_DELAY.as_millis() + 1);
    assert!((1..=most).contains(&u128::from(syncs)), "{syncs} syncs, at most {most}");
    assert_eq!(words(&database).len(), 300);
}
