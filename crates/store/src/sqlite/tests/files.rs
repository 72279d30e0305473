//! The file: created, reopened, shared, and left behind by a process that died.

use std::{
    path::Path,
    sync::{Arc, Barrier},
    thread,
};

use tempfile::TempDir;
use windlass_core::{
    canonical::{self, Digest},
    envelope::TokenUsage,
    ids::RunId,
    message::Message,
    run::RunStatus,
    time::Timestamp,
};

use super::{
    super::{Durability, MIGRATIONS, Options},
    file, open,
};
use crate::{
    Blobs, Ending, ErrorKind, Events, Housekeeping, PendingStart, Reservations, Retention, Runs, Sessions, Transcripts,
    sqlite::SqliteStore,
    suite::{head_of, new_run, note, run_id, session, workspace},
};

/// Opens a run and appends to it; returns everything a reader can see.
async fn fill(store: &SqliteStore) -> String {
    store.open_run(new_run(&run_id(), &["hello"])).await.unwrap();
    for key in ["a", "b", "c"] {
        store.append_events(&run_id(), vec![note(key, "x")]).await.unwrap();
    }
    contents(store).await
}

async fn contents(store: &SqliteStore) -> String {
    let row = store.run(&run_id()).await.unwrap().unwrap();
    let transcript = store.transcript(&run_id(), row.head).await.unwrap();
    format!("{row:?} {transcript:?} {:?}", store.events(&run_id(), 0, u32::MAX).await.unwrap())
}

#[tokio::test]
async fn a_reopened_store_has_everything() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("made/on/the/way/windlass.db");
    for durability in [Durability::Full, Durability::Relaxed] {
        let path = path.with_extension(format!("{durability:?}"));
        let store = SqliteStore::open(Options { durability, ..Options::new(&path) }).unwrap();
        let before = fill(&store).await;
        drop(store);
        assert_eq!(contents(&open(&path)).await, before);
    }
}

#[tokio::test]
async fn commits_are_synced_as_the_options_say() {
    const WRITES: u64 = 5;
    let directory = TempDir::new().unwrap();
    for (durability, syncs) in [(Durability::Full, WRITES), (Durability::Relaxed, 0)] {
        let store = SqliteStore::open(Options { durability, ..Options::new(file(&directory)) }).unwrap();
        let before = store.stats();
        for body in 0..WRITES {
            store.put_blob(serde_json::json!(body).into()).await.unwrap();
        }
        let after = store.stats();
        assert_eq!((after.commits - before.commits, after.syncs - before.syncs), (WRITES, syncs));
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_a_store_that_is_never_closed() {
    let directory = TempDir::new().unwrap();
    let store = open(&file(&directory));
    let before = fill(&store).await;
    std::mem::forget(store);
    assert_eq!(contents(&open(&file(&directory))).await, before);
}

#[tokio::test]
async fn the_files_of_a_killed_process_hold_every_acknowledged_write() {
    let directory = TempDir::new().unwrap();
    let store = open(&file(&directory));
    let before = fill(&store).await;
    // What a kill leaves: the database and its log as they are on disk at this moment, and no shared memory.
    let wreck = TempDir::new().unwrap();
    for name in ["windlass.db", "windlass.db-wal"] {
        std::fs::copy(directory.path().join(name), wreck.path().join(name)).unwrap();
    }
    assert_eq!(contents(&open(&file(&wreck))).await, before);
}

#[tokio::test]
async fn two_stores_on_one_file_share_one_log() {
    const APPENDS: u64 = 50;
    let directory = TempDir::new().unwrap();
    let stores = [Arc::new(open(&file(&directory))), Arc::new(open(&file(&directory)))];
    stores[0].open_run(new_run(&run_id(), &["hello"])).await.unwrap();
    let writers: Vec<_> = (0..2 * APPENDS)
        .map(|index| {
            let store = Arc::clone(&stores[index as usize % 2]);
            tokio::spawn(async move { store.append_events(&run_id(), vec![note(&index.to_string(), "x")]).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    for store in stores {
        let seqs: Vec<u64> =
            store.events(&run_id(), 0, u32::MAX).await.unwrap().into_iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=2 * APPENDS + 1).collect::<Vec<_>>());
    }
}

#[test]
fn processes_may_open_a_new_file_at_the_same_time() {
    // The collision is a matter of microseconds, so it gets many chances.
    for _ in 0..40 {
        let directory = TempDir::new().unwrap();
        let (path, start) = (file(&directory), Barrier::new(8));
        thread::scope(|scope| {
            let open = || {
                start.wait();
                SqliteStore::open(Options::new(&path))
            };
            let openers: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            for opener in openers {
                opener.join().unwrap().unwrap();
            }
        });
    }
}

fn refusal(path: &Path) -> (ErrorKind, String) {
    let error = SqliteStore::open(Options::new(path)).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn a_file_of_a_newer_build_is_refused() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory);
    drop(open(&path));
    let sql = rusqlite::Connection::open(&path).unwrap();
    sql.pragma_update(None, "user_version", 7).unwrap();
    let message = format!(
        "{} was written by a newer build: its schema is version 7 and this build knows up to 2; upgrade this build",
        path.display()
    );
    assert_eq!(refusal(&path), (ErrorKind::Invalid, message));
}

/// A file as the first build left it: its version in the header, no table for versions, and a run of a session that has
/// ended.
fn file_of_the_first_build(path: &Path) {
    let question = Message::user("hello");
    let (body, digest) = (canonical::bytes_of(&question).unwrap(), Digest::of(&question).unwrap().to_string());
    let chain = head_of(&[question]).digest.to_string();
    let sql = rusqlite::Connection::open(path).unwrap();
    sql.execute_batch(MIGRATIONS[0]).unwrap();
    sql.execute("INSERT INTO blobs VALUES (?1, ?2)", (&digest, body)).unwrap();
    sql.execute_batch("INSERT INTO sessions VALUES ('acme', 'chat', 5, NULL)").unwrap();
    sql.execute(
        "INSERT INTO runs VALUES ('run-1', 'acme', 'chat', 'execution-1', 'clerk', ?1, 'script:demo', NULL, NULL, '{}', '{}',
             'completed', 'done', 'hello', 10, 20, 20, 1, 1, 1, ?2, 1)",
        (&digest, &chain),
    )
    .unwrap();
    sql.execute("INSERT INTO transcript VALUES ('run-1', 0, ?1, ?2)", (&digest, &chain)).unwrap();
    sql.execute("INSERT INTO session_messages VALUES ('acme', 'chat', 0, ?1, 'run-1')", [&digest]).unwrap();
    let end = r#"{"finishReason":"stop","text":"bye","toolCalls":2,"turns":3,"usage":{"inputTokens":7}}"#;
    sql.execute("INSERT INTO events VALUES ('run-1', 1, 'end', 20, 'result', ?1)", [end]).unwrap();
    sql.execute_batch(
        "INSERT INTO runs VALUES ('never-began', 'acme', NULL, '', 'clerk', '', 'script:demo', NULL, NULL, '{}', '{}',
             'queued', 'planning', 'hello', 15, 15, NULL, 0, 0, 0, '', 0)",
    )
    .unwrap();
    sql.pragma_update(None, "user_version", 1).unwrap();
}

#[tokio::test]
async fn a_file_of_the_first_build_goes_on() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory);
    file_of_the_first_build(&path);
    for _ in 0..2 {
        let store = open(&path);
        let row = store.run(&run_id()).await.unwrap().unwrap();
        assert_eq!(store.transcript(&run_id(), row.head).await.unwrap(), [Message::user("hello")]);
        let ending = Ending {
            output_preview: Some("bye".to_owned()),
            finish_reason: Some("stop".into()),
            usage: Some(TokenUsage { input_tokens: 7, ..TokenUsage::default() }),
            turns: Some(3),
            tool_calls: Some(2),
            ..Ending::default()
        };
        assert_eq!((row.status, row.ending), (RunStatus::Completed, Some(ending)));
        assert_eq!(row.root_agent.as_str(), "clerk");
        let chat = store.session(&workspace(), &session()).await.unwrap().unwrap();
        assert_eq!((chat.summary.as_str(), chat.last_used_at), ("hello", Timestamp(10)));
        assert_eq!(chat.agent, Some("clerk".into()));
        let conversation = store.session_messages(&workspace(), &session()).await.unwrap();
        assert_eq!(conversation, [Message::user("hello")]);
        // It was accepted, and nothing was kept of its start.
        let pending = PendingStart { run: RunId::new("never-began"), plan: None };
        assert_eq!(store.pending_starts(Timestamp(100), 10).await.unwrap(), [pending]);
    }
}

#[tokio::test]
async fn a_compacted_file_is_smaller() {
    let directory = TempDir::new().unwrap();
    let store = open(&file(&directory));
    store.compact().await.unwrap();
    for body in 0..200 {
        // Digests, because other bytes would be packed.
        let noise: String =
            (0..400).map(|part| Digest::of_bytes(format!("{body} {part}").as_bytes()).to_string()).collect();
        store.put_blob(serde_json::json!(noise).into()).await.unwrap();
    }
    let full = Retention { before: Timestamp(u64::MAX), limit: 10 };
    assert_eq!(store.sweep(full).await.unwrap().blobs, 200);
    let given_back = store.compact().await.unwrap().bytes;
    assert!(given_back > 200 * 10_000, "{given_back} bytes");
    store.close().await.unwrap();
    let left = std::fs::metadata(file(&directory)).unwrap().len();
    assert!(left < 1_000_000, "{left} bytes");
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory);
    std::fs::write(&path, "notes about windlasses, kept in a text file by mistake").unwrap();
    let message = format!(
        "{} cannot be used as a database: this is not a SQLite database; move the file away, and restore a backup with \
         `windlass store restore FILE` if a database was here",
        path.display()
    );
    assert_eq!(refusal(&path), (ErrorKind::Corrupt, message));
}
