//! Connections that are refused, lost or left in the middle.

use std::{pin::pin, time::Duration};

use futures_util::FutureExt as _;
use secrecy::SecretString;
use serde_json::json;
use tokio_postgres::error::SqlState;

use super::{super::testing::TestServer, open, shell};
use crate::{
    Blobs, ErrorKind, Events, Runs, StoreError,
    postgres::{Options, PostgresStore},
    suite::{code, new_run, note, run_id},
};

/// Only a bug makes a test wait this long.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn what_cannot_be_connected_to_says_why_and_keeps_the_password() {
    let server = TestServer::shared().database().await;
    let here = secrecy::ExposeSecret::expose_secret(&server).split(" dbname").next().unwrap().to_owned();
    let cases = [
        ("postgres://u:secret@h:port/db".to_owned(), ErrorKind::Invalid),
        ("host=/nowhere user=u password=secret".to_owned(), ErrorKind::Unavailable),
        (format!("{here} password=secret dbname=missing"), ErrorKind::Invalid),
    ];
    for (url, kind) in cases {
        let options = Options::new(SecretString::from(url));
        let shown = format!("{options:?}");
        let error = PostgresStore::connect(options).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(
            ![shown, error.to_string(), format!("{error:?}")].iter().any(|text| text.contains("secret")),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_survives_the_loss_of_all_its_connections() {
    let url = TestServer::shared().database().await;
    let (store, other) = (open(url.clone()).await, open(url.clone()).await);
    store.open_run(new_run(&run_id(), &["hello"])).await.unwrap();
    let mut watch = store.watch(&run_id());

    let shell = shell(&url).await;
    for round in 0..3 {
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        shell.execute(cut, &[]).await.unwrap();
        // What fails may be tried again, until it is there exactly once.
        let key = round.to_string();
        let seq = loop {
            match other.append_events(&run_id(), vec![note(&key, "x")]).await {
                Ok(seq) => break seq,
                Err(error) => assert!(error.retryable(), "{error}"),
            }
        };
        assert_eq!(seq, 2 + round);
        // The line was cut as well; it comes back and finds what it missed.
        let wakes = async {
            loop {
                watch.changed().await;
                match store.events(&run_id(), seq - 1, 1).await {
                    Ok(events) if events.len() == 1 => break,
                    Ok(_) => {}
                    Err(error) => assert!(error.retryable(), "{error}"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, wakes).await.expect("the watcher is woken in spite of the cut");
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_nothing_behind() {
    let url = TestServer::shared().database().await;
    let store = PostgresStore::connect(Options { connections: 2, ..Options::new(url.clone()) }).await.unwrap();
    store.open_run(new_run(&run_id(), &["hello"])).await.unwrap();
    // Another transaction locks the run, so that the append is in the middle of its own when its caller is dropped.
    let shell = shell(&url).await;
    shell.batch_execute("BEGIN; SELECT 1 FROM runs FOR UPDATE").await.unwrap();
    let (run, waits) = (
        run_id(),
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                                   AND datname = current_database()",
    );
    {
        let mut append = pin!(store.append_events(&run, vec![note("a", "x")]));
        while shell.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            assert!((&mut append).now_or_never().is_none());
            tokio::task::yield_now().await;
        }
    }
    shell.batch_execute("COMMIT").await.unwrap();
    assert_eq!(store.append_events(&run_id(), vec![note("b", "x")]).await.unwrap(), 2);
    let keys: Vec<String> = store.events(&run_id(), 0, 10).await.unwrap().into_iter().map(|event| event.key).collect();
    assert_eq!(keys, ["started", "b"]);
}

#[tokio::test]
async fn a_closed_store_refuses_and_ends_its_watches() {
    let store = open(TestServer::shared().database().await).await;
    let mut watch = store.watch(&run_id());
    store.close();
    watch.changed().await;
    assert_eq!(code(store.put_blob(json!(1).into()).await), "STO0009");
    assert_eq!(code(store.events(&run_id(), 0, 1).await), "STO0009");
}

#[tokio::test]
async fn refusals_of_the_server_are_told_apart() {
    let url = TestServer::shared().database().await;
    let shell = shell(&url).await;
    let raised = async |state: &str| {
        let raise = format!("DO $$ BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = '{state}'; END $$");
        StoreError::from(shell.batch_execute(&raise).await.unwrap_err())
    };
    let cases = [
        (SqlState::T_R_SERIALIZATION_FAILURE, ErrorKind::Unavailable),
        (SqlState::T_R_DEADLOCK_DETECTED, ErrorKind::Unavailable),
        (SqlState::UNIQUE_VIOLATION, ErrorKind::Unavailable),
        (SqlState::TOO_MANY_CONNECTIONS, ErrorKind::Unavailable),
        (SqlState::DISK_FULL, ErrorKind::Unavailable),
        (SqlState::ADMIN_SHUTDOWN, ErrorKind::Unavailable),
        (SqlState::READ_ONLY_SQL_TRANSACTION, ErrorKind::Unavailable),
        (SqlState::INVALID_PASSWORD, ErrorKind::Invalid),
        (SqlState::DATA_CORRUPTED, ErrorKind::Corrupt),
        (SqlState::UNDEFINED_TABLE, ErrorKind::Invalid),
        (SqlState::CHECK_VIOLATION, ErrorKind::Invalid),
    ];
    for (state, kind) in cases {
        assert_eq!(raised(state.code()).await.kind(), kind, "{state:?}");
    }
}
