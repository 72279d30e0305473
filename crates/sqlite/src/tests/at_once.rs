//! Writes that are executed on the threads of their callers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rusqlite::Connection;
use tempfile::TempDir;

use super::{Gate, file, insert, open, submit, syncs::Slow, words, words_in};
use crate::{Ack, Database, DatabaseError, Options, Ticket, Tx};

fn at_once(database: &Database, ack: Ack, word: &'static str) -> Ticket<(), DatabaseError> {
    database.submit_at_once(ack, move |tx| Ok(insert(tx, word)?))
}

#[tokio::test]
async fn a_relaxed_write_is_acknowledged_when_the_call_returns() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    // The writer's thread may hold the lock for a moment, and then executes the write itself.
    let mut first = at_once(&database, Ack::Relaxed, "first");
    let returned = (0..100).filter(|_| {
        let mut write = database.apply_at_once(Ack::Relaxed, |tx| insert(tx, &uuid(tx)));
        write.try_answer().is_some()
    });
    assert!(returned.count() > 50);
    assert!(first.try_answer().is_some_and(|first| first.is_ok()) || words(&database)[0] == "first");
    database.synced().await.unwrap();
    drop(database);
    assert_eq!(words_in(&file(&directory)).len(), 101);
}

fn uuid(sql: &Connection) -> String {
    sql.query_row("SELECT hex(randomblob(16))", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn writes_are_executed_while_the_log_is_synced() {
    let mut slow = Slow::open();
    let mut first = at_once(&slow.database, Ack::Durable, "first");
    slow.asked.recv().await.unwrap();
    // The writer's thread is in the sync.
    at_once(&slow.database, Ack::Relaxed, "second").await.unwrap();
    let mut third = at_once(&slow.database, Ack::Durable, "third");
    assert_eq!((first.try_answer(), third.try_answer()), (None, None));
    slow.allow.send(()).unwrap();
    first.await.unwrap();
    // The sync that was under way does not cover the third write.
    slow.asked.recv().await.unwrap();
    assert_eq!(third.try_answer(), None);
    slow.allow.send(()).unwrap();
    third.await.unwrap();
    slow.database.synced().await.unwrap();
    assert_eq!(words(&slow.database), ["first", "second", "third"]);
}

#[tokio::test]
async fn a_wait_for_the_sync_covers_what_was_written_during_another_sync() {
    let mut slow = Slow::open();
    let first = at_once(&slow.database, Ack::Durable, "first");
    slow.asked.recv().await.unwrap();
    at_once(&slow.database, Ack::Relaxed, "second").await.unwrap();
    let waiting = tokio::spawn({
        let database = slow.database.clone();
        async move { database.synced().await }
    });
    slow.allow.send(()).unwrap();
    first.await.unwrap();
    slow.asked.recv().await.unwrap();
    assert!(!waiting.is_finished());
    slow.allow.send(()).unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_eager_write_is_acknowledged_before_its_sync_which_begins_at_once() {
    let mut slow = Slow::open();
    let told = Arc::new(AtomicUsize::new(0));
    for (count, queued) in [false, true].into_iter().enumerate() {
        let work = {
            let told = Arc::clone(&told);
            move |tx: &Tx<'_>| {
                insert(tx, &uuid(tx))?;
                let told = Arc::clone(&told);
                tx.after_sync(move || _ = told.fetch_add(1, Ordering::SeqCst));
                Ok::<_, DatabaseError>(())
            }
        };
        let write = if queued {
            slow.database.submit(Ack::Eager, work)
        } else {
            slow.database.submit_at_once(Ack::Eager, work)
        };
        write.await.unwrap();
        // Nothing else asks for a sync.
        slow.asked.recv().await.unwrap();
        assert_eq!(told.load(Ordering::SeqCst), count);
        slow.allow.send(()).unwrap();
        slow.database.synced().await.unwrap();
        while told.load(Ordering::SeqCst) == count {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_write_comes_after_those_that_were_queued_before_it() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let gate = Gate::close(&database).await;
    let tickets = [
        submit(&database, Ack::Relaxed, "one"),
        at_once(&database, Ack::Relaxed, "two"),
        submit(&database, Ack::Durable, "three"),
        at_once(&database, Ack::Durable, "four"),
    ];
    assert_eq!(database.queued(), 4);
    gate.open().await;
    for ticket in tickets {
        ticket.await.unwrap();
    }
    assert_eq!(words(&database), ["one", "two", "three", "four"]);
}

#[tokio::test]
async fn a_failed_write_is_undone_and_those_around_it_are_kept() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    at_once(&database, Ack::Relaxed, "before").await.unwrap();
    let refused = DatabaseError::Refused { detail: "a change of mind".to_owned() };
    for ack in [Ack::Relaxed, Ack::Durable] {
        let failing = database.submit_at_once(ack, |tx| {
            insert(tx, "failing")?;
            tx.after_sync(|| panic!("what is not kept has nothing to do afterwards"));
            Err::<(), _>(DatabaseError::Refused { detail: "a change of mind".to_owned() })
        });
        assert_eq!(failing.await, Err(refused.clone()));
    }
    at_once(&database, Ack::Durable, "after").await.unwrap();
    assert_eq!(words(&database), ["before", "after"]);
}

#[tokio::test]
async fn acknowledged_writes_survive_the_failure_of_a_later_one() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let losses = Arc::new(AtomicUsize::new(0));
    database.on_failed_commit({
        let losses = Arc::clone(&losses);
        move || _ = losses.fetch_add(1, Ordering::SeqCst)
    });
    at_once(&database, Ack::Relaxed, "told").await.unwrap();
    // It fails its batch, because it cannot be undone alone.
    database.apply_at_once(Ack::Relaxed, |tx| insert(tx, "told")).await.unwrap_err();
    assert_eq!(losses.load(Ordering::SeqCst), 1);
    at_once(&database, Ack::Durable, "after").await.unwrap();
    drop(database);
    assert_eq!(words_in(&file(&directory)), ["told", "after"]);
}

#[tokio::test]
async fn what_was_written_during_a_sync_that_fails_is_not_stored() {
    let mut slow = Slow::open();
    let unknown = at_once(&slow.database, Ack::Durable, "unknown");
    slow.asked.recv().await.unwrap();
    at_once(&slow.database, Ack::Relaxed, "meanwhile").await.unwrap();
    let waiting = at_once(&slow.database, Ack::Durable, "waiting");
    drop(slow.allow);
    for write in [unknown, waiting] {
        assert!(matches!(write.await, Err(DatabaseError::SyncFailed { .. })));
    }
    let later = at_once(&slow.database, Ack::Relaxed, "later");
    assert!(matches!(later.await, Err(DatabaseError::SyncFailed { .. })));
    assert!(matches!(slow.database.synced().await, Err(DatabaseError::SyncFailed { .. })));
    drop(slow.database);
    assert!(!words_in(&file(&slow.directory)).contains(&"meanwhile".to_owned()));
}

#[tokio::test]
async fn a_caller_does_not_wait_for_another_process() {
    let directory = TempDir::new().unwrap();
    let database = open(Options::new(file(&directory)));
    let other = Connection::open(file(&directory)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut write = at_once(&database, Ack::Relaxed, "patient");
    assert_eq!(write.try_answer(), None);
    other.execute_batch("ROLLBACK").unwrap();
    write.await.unwrap();
    assert_eq!(words(&database), ["patient"]);
}
