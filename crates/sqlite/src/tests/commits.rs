//! The writer: order, batches, and how a failed write affects its batch.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tempfile::TempDir;
use tokio::sync::mpsc::unbounded_channel;

use super::{Gate, apply, file, insert, open, submit, words};
use crate::{Ack, Database, DatabaseError, ErrorKind, Options, Ticket, Tx, writer::BATCH};

fn refused(detail: &str) -> DatabaseError {
    DatabaseError::Refused { detail: detail.to_owned() }
}

#[tokio::test]
async fn queued_writes_are_committed_together_in_order() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let gate = Gate::close(&database).await;
    let before = database.stats();
    let tickets = [
        submit(&database, Ack::Durable, "one"),
        apply(&database, Ack::Relaxed, "two"),
        submit(&database, Ack::Relaxed, "three"),
        apply(&database, Ack::Durable, "four"),
    ];
    assert_eq!(database.queued(), 4);
    gate.open().await;
    for ticket in tickets {
        ticket.await.unwrap();
    }
    let after = database.stats();
    // The gate's write is relaxed, so it is part of the same commit.
    assert_eq!((after.commits - before.commits, after.writes - before.writes), (1, 5));
    assert_eq!(words(&database), ["one", "two", "three", "four"]);
    assert_eq!(database.queued(), 0);
}

#[tokio::test]
async fn a_failed_write_is_undone_and_the_rest_of_its_batch_is_committed() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let gate = Gate::close(&database).await;
    let (kept, told) = unbounded_channel();
    let before = database.submit(Ack::Durable, move |tx| {
        insert(tx, "before")?;
        let kept = kept.clone();
        tx.after_sync(move || kept.send("before").unwrap());
        Ok::<_, DatabaseError>(())
    });
    let failing: Ticket<(), _> = database.submit(Ack::Durable, |tx| {
        insert(tx, "failing")?;
        tx.after_sync(|| panic!("what is not kept has nothing to do afterwards"));
        Err(refused("a change of mind"))
    });
    let panicking: Ticket<(), DatabaseError> = database.submit(Ack::Durable, |tx| {
        insert(tx, "panicking")?;
        std::panic::resume_unwind(Box::new("a write that panics"))
    });
    let after = apply(&database, Ack::Durable, "after");
    gate.open().await;

    before.await.unwrap();
    assert_eq!(failing.await, Err(refused("a change of mind")));
    assert_eq!(panicking.await, Err(DatabaseError::unavailable("write", "the write panicked")));
    after.await.unwrap();
    assert_eq!(words(&database), ["before", "after"]);
    // Once, however often the write was executed.
    assert_eq!(told.len(), 1);
}

#[tokio::test]
async fn a_failed_write_alone_in_its_batch_is_undone() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let before = database.stats();
    let failing: Ticket<(), _> = database.submit(Ack::Durable, |tx| {
        insert(tx, "failing")?;
        Err(refused("a change of mind"))
    });
    assert_eq!(failing.await, Err(refused("a change of mind")));
    assert_eq!((database.stats().commits, words(&database)), (before.commits, Vec::new()));
    submit(&database, Ack::Durable, "failing").await.unwrap();
    assert_eq!(words(&database), ["failing"]);
}

/// Queues a write and one that fails the whole batch. Returns the errors of both.
async fn fail_batch(
    database: &Database,
    culprit: impl FnOnce(&Database) -> Ticket<(), DatabaseError>,
) -> [DatabaseError; 2] {
    let gate = Gate::close(database).await;
    let neighbour = submit(database, Ack::Relaxed, "neighbour");
    let culprit = culprit(database);
    gate.open().await;
    [neighbour.await.unwrap_err(), culprit.await.unwrap_err()]
}

#[tokio::test]
async fn an_infallible_write_that_fails_fails_the_batch() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    apply(&database, Ack::Durable, "taken").await.unwrap();
    let twice = fail_batch(&database, |database| apply(database, Ack::Durable, "taken")).await;
    let panic = fail_batch(&database, |database| {
        database.apply(Ack::Durable, |_: &Tx<'_>| -> rusqlite::Result<()> {
            std::panic::resume_unwind(Box::new("a write that panics"))
        })
    });
    for error in twice.into_iter().chain(panic.await) {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert_eq!(words(&database), ["taken"]);
    submit(&database, Ack::Durable, "neighbour").await.unwrap();
    assert_eq!(words(&database), ["taken", "neighbour"]);
}

#[tokio::test]
async fn failed_commit_hooks_run_before_callers_and_the_next_batch() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    apply(&database, Ack::Durable, "taken").await.unwrap();
    let gate = Gate::close(&database).await;
    let lost = Mutex::new(apply(&database, Ack::Durable, "taken"));
    let neighbours: Vec<_> = (1..BATCH).map(|_| database.apply(Ack::Relaxed, |_| Ok(()))).collect();
    let (answers, losses) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    database.on_failed_commit({
        let (answers, losses) = (Arc::clone(&answers), Arc::clone(&losses));
        move || {
            answers.lock().unwrap().push(lost.lock().unwrap().try_answer());
            losses.fetch_add(1, Ordering::SeqCst);
        }
    });
    let successor = database.submit(Ack::Relaxed, move |_| Ok::<_, DatabaseError>(losses.load(Ordering::SeqCst)));
    gate.open().await;
    for neighbour in neighbours {
        neighbour.await.unwrap_err();
    }
    assert_eq!(successor.await, Ok(1));
    assert_eq!(*answers.lock().unwrap(), [None]);
}

#[tokio::test]
async fn a_full_queue_rejects_writes_at_once() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let gate = Gate::close(&database).await;
    let waiting: Vec<_> = (0..crate::database::QUEUE).map(|_| database.apply(Ack::Relaxed, |_| Ok(()))).collect();
    let error = submit(&database, Ack::Relaxed, "one too many").await.unwrap_err();
    assert_eq!(error, DatabaseError::unavailable("write", "too many writes are queued"));
    gate.open().await;
    for ticket in waiting {
        ticket.await.unwrap();
    }
    submit(&database, Ack::Relaxed, "room again").await.unwrap();
    assert_eq!(words(&database), ["room again"]);
}

#[tokio::test]
async fn close_finishes_accepted_writes_and_rejects_later_ones() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let gate = Gate::close(&database).await;
    let accepted = submit(&database, Ack::Relaxed, "accepted");
    let closing = database.close();
    let ((), closed) = tokio::join!(gate.open(), closing);
    closed.unwrap();
    accepted.await.unwrap();

    assert_eq!(submit(&database, Ack::Durable, "late").await, Err(DatabaseError::Closed));
    assert_eq!(database.read_blocking(|_| Ok(())), Err(DatabaseError::Closed));
    assert_eq!(database.read(|_| Ok(())).await, Err(DatabaseError::Closed));
    database.close().await.unwrap();
    // The log was checkpointed and removed.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    assert_eq!(words(&open(Options::new(file(&directory)))), ["accepted"]);
}

#[tokio::test]
async fn a_write_may_own_the_last_clone() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let clone = database.clone();
    let gate = Gate::close(&database).await;
    let ticket = database.submit(Ack::Durable, move |tx| {
        insert(tx, "kept")?;
        // Dropped together with the write.
        let Database { .. } = &clone;
        Ok::<_, DatabaseError>(())
    });
    drop(database);
    gate.open().await;
    ticket.await.unwrap();
    assert_eq!(words(&open(Options::new(file(&directory)))), ["kept"]);
}
