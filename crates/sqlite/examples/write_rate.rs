//! How many small writes the database takes per second: `cargo run --release --example write_rate -p windlass-sqlite`.
//!
//! Each submitter writes a row of 1 KB, waits for the result and writes the next. The directory is the first argument,
//! or the current one; its disk is what is measured.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use windlass_sqlite::{Ack, Database, DatabaseError, Options};

const TIME: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let directory = tempfile::tempdir_in(directory)?;
    println!("submitters  ack       call    writes/s  commits/s  syncs/s   p50 µs   p99 µs");
    for submitters in [1, 200] {
        for ack in [Ack::Durable, Ack::Relaxed] {
            for call in [Call::Submit, Call::Apply] {
                measure(directory.path(), submitters, ack, call).await?;
            }
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum Call {
    Submit,
    Apply,
}

async fn measure(directory: &Path, submitters: usize, ack: Ack, call: Call) -> Result<(), Box<dyn std::error::Error>> {
    let path = directory.join("commits.db");
    let database = Database::open(Options::new(&path))?;
    database.migrate("benchmark", &["CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT"])?;
    let (before, start) = (database.stats(), Instant::now());
    let next = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = (0..submitters)
        .map(|_| {
            let (database, next) = (database.clone(), Arc::clone(&next));
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while start.elapsed() < TIME {
                    let (id, begin) = (next.fetch_add(1, Ordering::Relaxed), Instant::now());
                    let insert = move |sql: &rusqlite::Connection| {
                        sql.prepare_cached("INSERT INTO rows VALUES (?1, ?2)")?.execute((id as i64, [7_u8; 1024]))
                    };
                    match call {
                        Call::Submit => {
                            database.submit(ack, move |tx| insert(tx).map_err(DatabaseError::from)).await?;
                        }
                        Call::Apply => _ = database.apply(ack, move |tx| insert(tx)).await?,
                    }
                    latencies.push(begin.elapsed());
                }
                Ok::<_, DatabaseError>(latencies)
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for worker in workers {
        latencies.extend(worker.await??);
    }
    let (after, seconds) = (database.stats(), start.elapsed().as_secs_f64());
    latencies.sort_unstable();
    let at = |part: f64| latencies[((latencies.len() - 1) as f64 * part) as usize].as_micros();
    let rate = |count: u64| (count as f64 / seconds).round();
    println!(
        "{submitters:>10}  {:<8}  {:<6}  {:>8}  {:>9}  {:>7}  {:>7}  {:>7}",
        format!("{ack:?}"),
        format!("{call:?}"),
        rate(after.writes - before.writes),
        rate(after.commits - before.commits),
        rate(after.syncs - before.syncs),
        at(0.5),
        at(0.99),
    );
    database.close().await?;
    std::fs::remove_file(&path)?;
    Ok(())
}
