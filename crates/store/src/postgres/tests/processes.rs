//! Several processes on one database.

use std::sync::Arc;

use futures_util::future::join_all;
use windlass_core::ids::RunId;

use super::{super::testing::TestServer, open, shell};
use crate::{
    ErrorKind, Events, Housekeeping, Runs,
    postgres::{Options, PostgresStore},
    suite::{damage, new_run, note, run_id},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_database_may_be_opened_by_several_at_the_same_time() {
    let url = TestServer::shared().database().await;
    let stores = join_all((0..8).map(|_| PostgresStore::connect(Options::new(url.clone())))).await;
    for store in stores {
        store.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_writers_leave_no_gap_and_wake_each_others_watchers() {
    const STORES: usize = 3;
    const APPENDS: usize = 40;
    let url = TestServer::shared().database().await;
    let stores = join_all((0..STORES).map(|_| open(url.clone()))).await;
    let stores: Vec<Arc<PostgresStore>> = stores.into_iter().map(Arc::new).collect();
    stores[0].open_run(new_run(&run_id(), &["hello"])).await.unwrap();

    // Each reads along as a stream does, while all of them write.
    let readers: Vec<_> = stores
        .iter()
        .map(|store| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let mut watch = store.watch(&run_id());
                let mut read: Vec<u64> = Vec::new();
                loop {
                    let events = store.events(&run_id(), read.len() as u64, 10).await.unwrap();
                    read.extend(events.iter().map(|event| event.seq));
                    if read.len() == 1 + STORES * APPENDS {
                        return read;
                    }
                    if events.is_empty() {
                        watch.changed().await;
                    }
                }
            })
        })
        .collect();
    let appends = (0..STORES * APPENDS).map(|index| {
        let store = Arc::clone(&stores[index % STORES]);
        tokio::spawn(async move { store.append_events(&run_id(), vec![note(&index.to_string(), "x")]).await })
    });
    for append in join_all(appends).await {
        append.unwrap().unwrap();
    }
    for reader in readers {
        assert_eq!(reader.await.unwrap(), (1..=1 + (STORES * APPENDS) as u64).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_runs_that_are_opened_twice_at_once_there_is_one() {
    let url = TestServer::shared().database().await;
    let stores = [open(url.clone()).await, open(url).await];
    for number in 0..20 {
        let new = || new_run(&RunId::new(format!("run-{number}")), &["hello"]);
        let (first, second) = tokio::join!(stores[0].open_run(new()), stores[1].open_run(new()));
        // A process that migrates at the same time is told to try again, and then finds it done.
        for (store, head) in stores.iter().zip([first, second]) {
            let again = match head {
                Ok(head) => head,
                Err(error) if error.retryable() => store.open_run(new()).await.unwrap(),
                Err(error) => panic!("{error}"),
            };
            assert_eq!(store.open_run(new()).await.unwrap(), again);
            assert_eq!(store.events(&new().id, 0, 10).await.unwrap().len(), 1);
        }
    }
}

#[tokio::test]
async fn a_database_of_a_newer_build_is_refused() {
    let url = TestServer::shared().database().await;
    drop(open(url.clone()).await);
    shell(&url).await.batch_execute("UPDATE schema_versions SET version = 1000").await.unwrap();
    let error = PostgresStore::connect(Options::new(url)).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, "STO0010"));
    assert!(error.to_string().contains("its schema is version 1000 and this build knows up to "), "{error}");
}

#[tokio::test]
async fn one_bad_row_hides_no_other() {
    let url = TestServer::shared().database().await;
    let (store, shell) = (open(url.clone()).await, shell(&url).await);
    damage::one_bad_row_hides_no_other(&store, async |sql| shell.batch_execute(sql).await.unwrap()).await;
}

#[tokio::test]
async fn a_probe_fails_where_nothing_can_be_written() {
    let url = TestServer::shared().database().await;
    let (store, shell) = (open(url.clone()).await, shell(&url).await);
    store.probe().await.unwrap();
    store.probe().await.unwrap();
    let probes = shell.query("SELECT version FROM schema_versions WHERE component = 'probe'", &[]).await.unwrap();
    assert_eq!(probes.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [2]);
    shell.batch_execute("ALTER TABLE schema_versions RENAME TO elsewhere").await.unwrap();
    store.probe().await.unwrap_err();
}
