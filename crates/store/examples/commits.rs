//! How many writes a second each adapter takes, side by side on this machine, both with everything synced to disk.
//!
//! ```text
//! cargo run --release -p windlass-store --features test-support --example commits [SECONDS]
//! ```
//!
//! A writer appends one event at a time to a run of its own, and waits for it. More writers share syncs.

use std::{
    env,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use windlass_core::{
    canonical::Digest,
    envelope::{Extra, Labels},
    event::{EventBody, NewEvent},
    ids::{AgentId, RunId, WorkspaceId},
    message::Message,
};
use windlass_store::{
    NewRun, Store,
    postgres::{
        self, PostgresStore,
        testing::{Disk, TestServer},
    },
    sqlite::{self, SqliteStore},
};

const WRITERS: [usize; 3] = [1, 16, 128];

#[tokio::main]
async fn main() -> Result<()> {
    let seconds =
        env::args().nth(1).map_or(Ok(3), |text| text.parse()).context("the argument is a number of seconds")?;
    let directory = tempfile::tempdir()?;
    let lite: Arc<dyn Store> = Arc::new(SqliteStore::open(sqlite::Options::new(directory.path().join("windlass.db")))?);
    let server = TestServer::start(Disk::Synced);
    let url = server.database().await;
    let great: Arc<dyn Store> = Arc::new(PostgresStore::connect(postgres::Options::new(url)).await?);

    println!("{:<10}{:>9}{:>12}{:>14}{:>14}", "adapter", "writers", "writes/s", "median ms", "99 % ms");
    for writers in WRITERS {
        for (name, store) in [("sqlite", &lite), ("postgres", &great)] {
            let mut waits = measure(store, name, writers, Duration::from_secs(seconds)).await?;
            waits.sort_unstable();
            let at =
                |share: usize| waits.get(waits.len() * share / 100).map_or(0.0, |wait| wait.as_secs_f64() * 1000.0);
            let rate = waits.len() as f64 / Duration::from_secs(seconds).as_secs_f64();
            println!("{name:<10}{writers:>9}{rate:>12.0}{:>14.2}{:>14.2}", at(50), at(99));
        }
    }
    Ok(())
}

/// How long each write took.
async fn measure(store: &Arc<dyn Store>, name: &str, writers: usize, time: Duration) -> Result<Vec<Duration>> {
    let mut tasks = Vec::new();
    for writer in 0..writers {
        let run = RunId::new(format!("{name}-{writers}-{writer}"));
        store.open_run(new_run(&run)).await?;
        let store = Arc::clone(store);
        tasks.push(tokio::spawn(async move {
            let (end, mut waits) = (Instant::now() + time, Vec::new());
            while Instant::now() < end {
                let begun = Instant::now();
                store.append_events(&run, vec![delta(&waits.len().to_string())]).await?;
                waits.push(begun.elapsed());
            }
            anyhow::Ok(waits)
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    Ok(all)
}

fn delta(key: &str) -> NewEvent {
    let text = "a few words, as a model says them at a time".to_owned();
    NewEvent::new(key, EventBody::AssistantDelta { text, turn: 1, attempt: 1, part: 0 })
}

fn new_run(run: &RunId) -> NewRun {
    NewRun {
        id: run.clone(),
        workspace: WorkspaceId::new("bench"),
        session: None,
        execution: "bench".to_owned(),
        agent_id: AgentId::new("bench"),
        agent_digest: Digest::ZERO,
        model_id: "none".to_owned(),
        parent: None,
        parent_call: None,
        labels: Labels::new(),
        metadata: Extra::new(),
        continues_session: false,
        messages: vec![Message::user("hello")],
        started: NewEvent::new("started", EventBody::PlannerNote { text: "begin".to_owned() }),
    }
}
