//! What stands in the tables: sharing, damage, and facts that no method of the trait returns.

use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;
use windlass_core::{
    canonical::Digest,
    envelope::{CallStatus, ToolOutput},
    ids::{CallId, RunId},
    message::Message,
    time::Timestamp,
};
use windlass_sqlite::{Progress, pack};

use super::{file, open};
use crate::{
    Blobs, CallJournal, ErrorKind, Events, FinishedCall, Housekeeping, NewRun, Notes, RecordBatch, Retention,
    RunFilter, Runs, StoreError, Transcripts,
    sqlite::examine,
    suite::{batch, calls::new_claim, code, damage, files::shows, new_run, note, run_id, session, workspace},
};

/// A shell on the store's database.
fn shell(directory: &TempDir) -> Connection {
    Connection::open(file(directory)).unwrap()
}

fn count(directory: &TempDir, table: &str) -> i64 {
    shell(directory).query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn runs_that_share_a_conversation_share_its_bodies() {
    let directory = TempDir::new().unwrap();
    let store = open(&file(&directory));
    let conversation = ["one", "two", "three"];
    for run in ["a", "b", "c"] {
        store.open_run(new_run(&RunId::new(run), &conversation)).await.unwrap();
    }
    assert_eq!((count(&directory, "transcript"), count(&directory, "blobs")), (9, 3));
}

#[tokio::test]
async fn a_late_outcome_is_kept_for_people() {
    let directory = TempDir::new().unwrap();
    let store = open(&file(&directory));
    store.open_run(new_run(&run_id(), &["hello"])).await.unwrap();
    let call = CallId::new("c");
    store.claim_call(new_claim(&run_id(), "c", 1, false)).await.unwrap();
    store.settle_call(&run_id(), &call, 1).await.unwrap();
    for outcome in [CallStatus::Ok, CallStatus::Failed] {
        let late = FinishedCall {
            run: run_id(),
            call: call.clone(),
            dispatch: 1,
            idempotent: true,
            output: ToolOutput::new(outcome),
            body: None,
            event: note("result/c", "late"),
        };
        store.finish_call(&late).await.unwrap();
    }
    let row: (u8, Option<Vec<u8>>, Vec<u8>) = shell(&directory)
        .query_row("SELECT state, output, late_output FROM tool_calls", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    let first = json!({"resultBytes": 0, "resultOmitted": false, "status": "ok", "v": 1}).to_string();
    let late = pack::unpack(&row.2).unwrap().into_owned();
    assert_eq!((row.0, row.1, late), (4, None, first.into_bytes()));
}

#[tokio::test]
async fn damage_is_noticed_when_it_is_read() {
    let directory = TempDir::new().unwrap();
    let store = open(&file(&directory));
    let head = store.open_run(new_run(&run_id(), &["hello"])).await.unwrap();
    let digest = Digest::of(&Message::user("hello")).unwrap();

    let other = serde_json::to_vec(&Message::user("goodbye")).unwrap();
    shell(&directory).execute("UPDATE blobs SET body = ?1", [other]).unwrap();
    let damaged = [store.blob(&digest).await.map(drop), store.transcript(&run_id(), head).await.map(drop)];
    assert_eq!(damaged.map(code), ["STO0008"; 2]);

    shell(&directory).execute("UPDATE runs SET status = 'no-such-status'", []).unwrap();
    assert_eq!(code(store.run(&run_id()).await), "STO0008");
    shell(&directory).execute("UPDATE events SET body = x'7b'", []).unwrap();
    assert_eq!(code(store.events(&run_id(), 0, 1).await), "STO0008");

    shell(&directory).execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM blobs").unwrap();
    assert_eq!(
        store.transcript(&run_id(), head).await.unwrap_err().to_string(),
        "stored data is damaged: the messages of run run-1 do not add up to their head; \
         `windlass doctor --deep` lists all of it, a backup has it whole"
    );
}

#[tokio::test]
async fn a_schema_changed_by_hand_is_no_reason_to_retry() {
    let directory = TempDir::new().unwrap();
    let store = open(&file(&directory));
    shell(&directory).execute_batch("DROP TABLE notes").unwrap();
    let error = store.put_note(&workspace(), "a", "b").await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    assert_eq!((error.kind(), error.retryable()), (ErrorKind::Invalid, false));
}

#[tokio::test]
async fn one_bad_row_hides_no_other() {
    let directory = TempDir::new().unwrap();
    let store = open(&file(&directory));
    damage::one_bad_row_hides_no_other(&store, async |sql| shell(&directory).execute_batch(sql).unwrap()).await;
    // Text that is none, which only SQLite stores.
    shell(&directory).execute_batch("UPDATE runs SET id = CAST(x'ff' AS TEXT) WHERE id = 'run-6'").unwrap_or_default();
    assert_eq!(store.runs(RunFilter::default()).await.unwrap().runs.len(), 2);
    store.sweep(Retention { before: Timestamp(u64::MAX / 4), limit: 10 }).await.unwrap();
}

#[tokio::test]
async fn a_thorough_look_names_every_row_that_is_not_well() {
    let directory = TempDir::new().unwrap();
    let store = open(&file(&directory));
    for run in ["a", "b", "c", "d"] {
        let head = store.open_run(new_run(&RunId::new(run), &["hello"])).await.unwrap();
        store.append_events(&RunId::new(run), vec![note("1", "x"), note("2", "x")]).await.unwrap();
        store.transcript(&RunId::new(run), head).await.unwrap();
    }
    for run in ["e", "f", "g"] {
        let new = NewRun { session: Some(session()), continues_session: true, ..new_run(&RunId::new(run), &["hello"]) };
        let head = store.open_run(new).await.unwrap();
        let last = RecordBatch { closes_session_turn: true, ..batch(&RunId::new(run), head) };
        store.record(last).await.unwrap();
    }
    store.put_blob(json!("whole").into()).await.unwrap();
    let file = json!("a file of h").into();
    let new = NewRun { messages: vec![shows("look", &file)], ..new_run(&RunId::new("h"), &[]) };
    store.open_run(new).await.unwrap();
    let missing =
        format!("files {}: the file {} is missing", Digest::of(&shows("look", &file)).unwrap(), file.digest());
    // Something that only looks like a reference.
    store.put_blob(json!([{"blob": {"digest": "0".repeat(64)}}]).into()).await.unwrap();
    let look = || {
        let found = examine(&shell(&directory), &Progress::default()).unwrap();
        let problems =
            found.into_iter().flat_map(|part| part.problems.into_iter().map(move |problem| (part.what, problem)));
        problems.map(|(what, problem)| format!("{what} {problem}")).collect::<Vec<_>>()
    };
    assert_eq!(look(), [missing]);
    store.put_blob(file).await.unwrap();
    assert_eq!(look(), Vec::<String>::new());
    shell(&directory)
        .execute_batch(
            "PRAGMA foreign_keys = OFF;
             UPDATE runs SET status = 'no-such-status' WHERE id = 'a';
             DELETE FROM events WHERE run = (SELECT number FROM runs WHERE id = 'b') AND seq = 2;
             DELETE FROM events WHERE run = (SELECT number FROM runs WHERE id = 'c') AND seq = 3;
             UPDATE events SET body = CAST('note' || char(10) || '{' || char(10) || 'started' AS BLOB)
                 WHERE run = (SELECT number FROM runs WHERE id = 'd') AND seq = 1;
             UPDATE events SET key_hash = key_hash + 1 WHERE run = (SELECT number FROM runs WHERE id = 'd') AND seq = 2;
             UPDATE runs SET head_digest = agent_digest WHERE id = 'd';
             UPDATE session_messages SET chain = (SELECT digest FROM blobs WHERE number = blob) WHERE idx = 1;
             UPDATE blobs SET body = x'22' WHERE body = CAST('\"whole\"' AS BLOB);",
        )
        .unwrap();
    let found = look();
    let begins = [
        "runs a: ",
        "bodies ",
        "events b: event 2 is missing, 3 comes next",
        "events d: event 1: ",
        "events d: event 2: it is not found by its key 1",
        "events c: its log ends with event 2, not 3",
        "messages d: message 0 does not continue",
        // Of the run that continues from there, and of the conversation itself: there and right after it.
        "messages g: message 2 does not continue",
        "conversations chat: message 1 does not continue",
        "conversations chat: message 2 does not continue",
    ];
    assert_eq!(found.len(), begins.len(), "{found:#?}");
    for (problem, begins) in found.iter().zip(begins) {
        assert!(problem.starts_with(begins), "{problem}");
    }
}
