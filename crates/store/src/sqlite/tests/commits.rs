//! The writer: groups, savepoints and what happens when a commit fails.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use tempfile::TempDir;
use tokio::task::JoinHandle;
use windlass_sqlite::Ack;

use super::{super::access::Tx, file, open};
use crate::{
    Blobs, Events, Notes, Result, Runs, StoreError,
    sqlite::SqliteStore,
    suite::{code, new_run, note, run_id},
};

/// Stops the writer inside a job, so that a test decides what queues up behind it.
struct Gate {
    release: mpsc::Sender<()>,
    job: JoinHandle<Result<()>>,
}

impl Gate {
    async fn shut(store: &Arc<SqliteStore>) -> Self {
        let (release, released) = mpsc::channel();
        let (entered, mut inside) = tokio::sync::mpsc::unbounded_channel();
        // Queued, so that it blocks the writer's thread and not this one.
        let job = store.parts.database.submit(Ack::Durable, move |_| {
            entered.send(()).unwrap();
            released.recv().unwrap();
            Ok(())
        });
        let job = tokio::spawn(job);
        inside.recv().await.unwrap();
        Self { release, job }
    }

    async fn open(self) {
        self.release.send(()).unwrap();
        self.job.await.unwrap().unwrap();
    }
}

fn submit<T, F>(store: &Arc<SqliteStore>, work: F) -> JoinHandle<Result<T>>
where
    T: Send + 'static,
    F: Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
{
    let store = Arc::clone(store);
    tokio::spawn(async move { store.parts.write(work).await })
}

async fn until_queued(store: &SqliteStore, jobs: usize) {
    while store.parts.database.queued() < jobs {
        tokio::task::yield_now().await;
    }
}

fn insert_note(tx: &Tx<'_>, key: &str) -> Result<()> {
    tx.sql.execute(
        "INSERT INTO notes (workspace, key, text, folded, updated_at) VALUES ('acme', ?1, '', '', 0)",
        [key],
    )?;
    Ok(())
}

async fn note_keys(store: &SqliteStore) -> Vec<String> {
    let notes = store.notes(&"acme".into(), "", 10).await.unwrap();
    notes.into_iter().map(|note| note.key).collect()
}

#[tokio::test]
async fn what_queues_up_shares_one_commit() {
    const APPENDS: usize = 200;
    let directory = TempDir::new().unwrap();
    let store = Arc::new(open(&file(&directory)));
    store.open_run(new_run(&run_id(), &["hello"])).await.unwrap();

    let gate = Gate::shut(&store).await;
    let before = store.stats();
    let appends: Vec<_> = (0..APPENDS)
        .map(|index| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.append_events(&run_id(), vec![note(&index.to_string(), "x")]).await })
        })
        .collect();
    until_queued(&store, APPENDS).await;
    gate.open().await;
    for append in appends {
        append.await.unwrap().unwrap();
    }
    let after = store.stats();
    // One commit for the gate itself and one for everything behind it.
    assert_eq!((after.commits - before.commits, after.writes - before.writes), (2, APPENDS as u64 + 1));
    assert_eq!(store.events(&run_id(), 0, u32::MAX).await.unwrap().len(), APPENDS + 1);
}

#[tokio::test]
async fn an_acknowledged_append_has_already_woken_its_watchers() {
    let directory = TempDir::new().unwrap();
    let store = open(&file(&directory));
    store.open_run(new_run(&run_id(), &["hello"])).await.unwrap();
    let mut watch = store.watch(&run_id());
    // The poller looks at newcomers once and finds the `started` event.
    tokio::time::timeout(Duration::from_secs(30), watch.changed()).await.expect("the poller looks");
    store.append_events(&run_id(), vec![note("a", "x")]).await.unwrap();
    tokio::time::timeout(Duration::ZERO, watch.changed()).await.expect("woken before the answer");
    store.append_events(&run_id(), vec![note("a", "x")]).await.unwrap();
    tokio::time::timeout(Duration::ZERO, watch.changed()).await.expect_err("a repeat is no news");
}

#[tokio::test]
async fn a_job_that_fails_does_not_hurt_its_neighbours() {
    let directory = TempDir::new().unwrap();
    let store = Arc::new(open(&file(&directory)));
    let commits = store.stats().commits;
    let gate = Gate::shut(&store).await;
    let before = submit(&store, |tx| insert_note(tx, "before"));
    let failing = submit(&store, |tx| {
        insert_note(tx, "failing")?;
        Err::<(), _>(StoreError::RunNotFound { run: run_id() })
    });
    let panicking = submit(&store, |tx| -> Result<()> {
        insert_note(tx, "panicking")?;
        std::panic::resume_unwind(Box::new("a job that panics"))
    });
    let after = submit(&store, |tx| insert_note(tx, "after"));
    until_queued(&store, 4).await;
    gate.open().await;

    before.await.unwrap().unwrap();
    assert_eq!(code(failing.await.unwrap()), "STO0001");
    assert_eq!(code(panicking.await.unwrap()), "STO0009");
    after.await.unwrap().unwrap();
    assert_eq!(store.stats().commits - commits, 2);
    assert_eq!(note_keys(&store).await, ["after", "before"]);
}

#[tokio::test]
async fn a_commit_that_fails_fails_every_job_of_its_batch() {
    let directory = TempDir::new().unwrap();
    let store = Arc::new(open(&file(&directory)));
    let gate = Gate::shut(&store).await;
    let innocent = submit(&store, |tx| insert_note(tx, "innocent"));
    // A deferred constraint is checked by the commit itself.
    let culprit = submit(&store, |tx| {
        tx.sql.pragma_update(None, "defer_foreign_keys", true)?;
        tx.sql.execute("INSERT INTO plans (run, turn, output) VALUES (77, 1, x'7b7d')", [])?;
        Ok(())
    });
    let mistaken = submit(&store, |_| Err::<(), _>(StoreError::RunNotFound { run: run_id() }));
    until_queued(&store, 3).await;
    gate.open().await;

    for job in [innocent, culprit, mistaken] {
        let error = job.await.unwrap().unwrap_err();
        assert_eq!((error.code(), error.retryable()), ("STO0009", true));
    }
    assert_eq!(note_keys(&store).await, Vec::<String>::new());
    submit(&store, |tx| insert_note(tx, "innocent")).await.unwrap().unwrap();
    assert_eq!(note_keys(&store).await, ["innocent"]);
}

#[tokio::test]
async fn closing_finishes_what_was_accepted_and_refuses_the_rest() {
    let directory = TempDir::new().unwrap();
    let store = Arc::new(open(&file(&directory)));
    let mut watch = store.watch(&run_id());
    let gate = Gate::shut(&store).await;
    let accepted = submit(&store, |tx| insert_note(tx, "accepted"));
    until_queued(&store, 1).await;
    let closing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.close().await }
    });
    watch.changed().await;
    gate.open().await;
    closing.await.unwrap().unwrap();
    accepted.await.unwrap().unwrap();

    assert_eq!(code(store.put_blob(serde_json::json!(1).into()).await), "STO0009");
    assert_eq!(code(store.events(&run_id(), 0, 1).await), "STO0009");
    store.close().await.unwrap();
    // Everything is in the one file: the log was folded into it.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    assert_eq!(note_keys(&open(&file(&directory))).await, ["accepted"]);
}
