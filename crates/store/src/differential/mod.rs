//! The same random calls on both adapters: the same answers, the same refusals, the same rows.
//!
//! Seeded: a failure names its seed and its step. `WINDLASS_STORE_SEEDS` sets how many seeds are played,
//! `WINDLASS_STORE_SEED` the first of them, `WINDLASS_STORE_STEPS` how many calls each one makes.

mod chance;
mod moves;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tempfile::TempDir;
use windlass_core::time::Timestamp;

use self::{chance::Chance, moves::Move};
use crate::{
    GrantFilter, RunFilter, SessionFilter, Store,
    clock::Clock,
    postgres::{self, PostgresStore, testing::TestServer},
    sqlite::{self, Durability, SqliteStore},
};

const SHORT_SEEDS: u64 = 4;
const SHORT_STEPS: u64 = 250;

/// How often everything that can be read is compared.
const LOOK: u64 = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_adapters_give_the_same_answers() {
    let first = number("WINDLASS_STORE_SEED").unwrap_or(1);
    let seeds = number("WINDLASS_STORE_SEEDS").unwrap_or(SHORT_SEEDS);
    let steps = number("WINDLASS_STORE_STEPS").unwrap_or(SHORT_STEPS);
    let mut accepted = 0;
    for seed in first..first + seeds {
        accepted += play(seed, steps).await;
    }
    let all = seeds * steps;
    println!("{all} calls on both adapters, {accepted} accepted, the same answers");
    // Refusals are expected, but not all calls may be refused.
    assert!(accepted * 2 > all, "only {accepted} of {all} calls were accepted");
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Returns how many calls were accepted.
async fn play(seed: u64, steps: u64) -> u64 {
    let directory = TempDir::new().unwrap();
    let time = Arc::new(AtomicU64::new(1));
    let clock: Clock = {
        let time = Arc::clone(&time);
        Arc::new(move || Timestamp(time.load(Ordering::SeqCst)))
    };
    let path = directory.path().join("windlass.db");
    let options =
        sqlite::Options { durability: Durability::Relaxed, clock: Arc::clone(&clock), ..sqlite::Options::new(path) };
    let sqlite_store = SqliteStore::open(options).unwrap();
    let url = TestServer::shared().database().await;
    let postgres_store =
        PostgresStore::connect(postgres::Options { clock, ..postgres::Options::new(url) }).await.unwrap();

    let mut chance = Chance::new(seed);
    let mut accepted = 0;
    for step in 0..steps {
        // Often several calls in the same millisecond, sometimes a day between two.
        let pause = chance.pick(&[0, 0, 1, 1000, 40_000, 90_000_000]);
        let now = time.fetch_add(pause, Ordering::SeqCst) + pause;
        let next = Move::draw(&mut chance, &sqlite_store, Timestamp(now)).await;
        let (ours, theirs) = (next.make(&sqlite_store).await, next.make(&postgres_store).await);
        assert_eq!(ours, theirs, "seed {seed}, step {step}: {next:?}");
        accepted += u64::from(ours.starts_with("Ok"));
        if step % LOOK == 0 || step + 1 == steps {
            assert_eq!(
                everything(&sqlite_store).await,
                everything(&postgres_store).await,
                "seed {seed}, after step {step}: {next:?}"
            );
        }
    }
    accepted
}

/// What can be read of everything the moves write.
async fn everything(store: &dyn Store) -> Vec<String> {
    let mut seen = Vec::new();
    for run in moves::runs() {
        let row = store.run(&run).await.unwrap();
        if let Some(row) = &row {
            let transcript = store.transcript(&run, row.head).await.unwrap();
            seen.push(format!("{transcript:?} {:?}", store.events(&run, 0, u32::MAX).await.unwrap()));
            seen.push(format!("{:?}", store.final_text(&run).await.unwrap()));
            seen.push(format!("{:?}", store.transcript_page(&run, 1, 3).await.unwrap()));
        }
        seen.push(format!("{row:?} {:?}", store.push_configs(&run).await.unwrap()));
    }
    for workspace in moves::workspaces() {
        for session in moves::sessions() {
            seen.push(format!("{:?}", store.session_page(&workspace, &session, None, None).await.unwrap()));
        }
        let all = SessionFilter { total: true, ..SessionFilter::of(workspace.clone()) };
        seen.push(format!("{:?}", store.sessions(all).await.unwrap()));
        seen.push(format!("{:?}", store.secrets(&workspace).await.unwrap()));
        for secret in moves::secrets() {
            seen.push(format!("{:?}", store.sealed_secret(&workspace, secret).await.unwrap()));
        }
        seen.push(format!("{:?}", store.keys(&workspace).await.unwrap()));
        for (tool, revoked) in [(None, true), (Some("pay".into()), false)] {
            let filter = GrantFilter { workspace: workspace.clone(), tool, scopes: None, revoked, limit: 2 };
            seen.push(format!("{:?}", store.grants(filter).await.unwrap()));
        }
        seen.push(format!("{:?}", store.notes(&workspace, "", 100).await.unwrap()));
    }
    seen.push(format!("{:?}", store.runs(RunFilter { total: true, ..RunFilter::default() }).await.unwrap()));
    for digest in moves::digests() {
        seen.push(format!("{digest} {:?}", store.blob(&digest).await.unwrap()));
    }
    seen
}
