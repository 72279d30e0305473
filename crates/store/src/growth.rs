//! What a run of a long session costs: the same as a run of a short one.
//!
//! `cargo test -p windlass-store growth -- --nocapture` prints the figures.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use secrecy::{ExposeSecret as _, SecretString};
use tempfile::TempDir;
use windlass_core::{ids::RunId, message::Message, run::RunStatus};

use crate::{
    NewRun, RecordBatch, Store,
    postgres::{
        self, PostgresStore,
        testing::{Disk, TestServer},
    },
    sqlite::{self, Durability, SqliteStore},
    suite::{batch, endings::result, new_run, session},
};

/// The last runs of the windows that are compared.
const AT: [u64; 3] = [10, 100, 1000];

/// Runs in a window, over which figures are averaged.
const WINDOW: u64 = 10;

/// About what a question, or an answer, has.
const TEXT: usize = 1000;

/// Of one window, per run.
struct Figures {
    bytes: f64,
    opening: Duration,
}

/// One run of the session, from question to answer. Returns how long opening it took.
async fn one_run(store: &dyn Store, number: u64) -> Duration {
    let run = RunId::new(format!("run-{number}"));
    let begun = Instant::now();
    let question = format!("{number:x>TEXT$}");
    let new = NewRun { session: Some(session()), continues_session: true, ..new_run(&run, &[&question]) };
    let head = store.open_run(new).await.unwrap();
    let took = begun.elapsed();
    let last = RecordBatch {
        messages: vec![Message::assistant(format!("{number:y>TEXT$}"))],
        events: vec![result("done")],
        status: RunStatus::Completed,
        closes_session_turn: true,
        ..batch(&run, head)
    };
    store.record(last).await.unwrap();
    took
}

/// Plays a session of 1,000 runs. `bytes` is how many bytes the store has written so far.
async fn play(adapter: &str, store: &dyn Store, bytes: impl AsyncFn() -> u64) -> Vec<Figures> {
    let (mut figures, mut before, mut openings) = (Vec::new(), 0, Vec::new());
    println!("{adapter:<10}{:>8}{:>16}{:>20}", "run", "bytes per run", "median to open");
    for number in 1..=AT[2] {
        if AT.contains(&(number + WINDOW - 1)) {
            (before, openings) = (bytes().await, Vec::new());
        }
        openings.push(one_run(store, number).await);
        if AT.contains(&number) {
            openings.sort_unstable();
            let window = Figures {
                bytes: (bytes().await - before) as f64 / WINDOW as f64,
                opening: openings[openings.len() / 2],
            };
            println!("{:<10}{number:>8}{:>16.0}{:>20.2?}", "", window.bytes, window.opening);
            figures.push(window);
        }
    }
    figures
}

fn assert_flat(figures: &[Figures]) {
    let ratio = figures[2].bytes / figures[0].bytes;
    println!("{:<10}run 1000 / run 10: {ratio:.3} bytes, {:.2} time", "", {
        figures[2].opening.as_secs_f64() / figures[0].opening.as_secs_f64()
    });
    assert!(ratio <= 1.1, "run 1,000 writes {ratio:.2} times as much as run 10");
}

#[tokio::test]
async fn a_run_of_a_long_session_writes_no_more_in_sqlite() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("windlass.db");
    let options = sqlite::Options { durability: Durability::Relaxed, ..sqlite::Options::new(&path) };
    let store = SqliteStore::open(options).unwrap();
    let shell = Connection::open(&path).unwrap();
    // What rows and index entries take, without the free room of their pages, which comes and goes.
    let bytes = async || {
        shell.query_row("SELECT sum(pgsize - unused) FROM dbstat", [], |row| row.get::<_, i64>(0)).unwrap() as u64
    };
    assert_flat(&play("SQLite", &store, bytes).await);
}

#[tokio::test]
async fn a_run_of_a_long_session_writes_no_more_in_postgres() {
    // A server of its own, because the write-ahead log counts what all of its databases write.
    let server = TestServer::start(Disk::Trusted);
    let url = server.database().await;
    let store = PostgresStore::connect(postgres::Options::new(url.clone())).await.unwrap();
    let shell = shell(&url).await;
    let bytes = async || {
        let row = shell.query_one("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::BIGINT", &[]).await;
        row.unwrap().get::<_, i64>(0) as u64
    };
    assert_flat(&play("Postgres", &store, bytes).await);
}

async fn shell(url: &SecretString) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url.expose_secret(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
