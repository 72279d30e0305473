//! The one thread that writes.
//!
//! It commits whatever has queued up in one transaction, so that many writers share the cost of one sync to disk. Every
//! job runs in a savepoint of its own: one that fails leaves no trace and does not hurt its neighbours. No job is
//! answered before the commit that holds it is durable.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};
use windlass_core::{ids::RunId, time::Timestamp};

use super::Clock;
use crate::{Result, StoreError, watch::Watchers};

/// Jobs that may wait; beyond that, callers wait.
const QUEUE: usize = 1024;
/// Jobs of one commit at most, so that the first of them is not kept waiting forever.
const BATCH: usize = 256;

/// What the writer has done since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Transactions, each of them one sync to disk at most.
    pub commits: u64,
    /// Writes that were carried out in them.
    pub writes: u64,
}

/// What a job works with.
pub(super) struct Tx<'c> {
    pub(super) sql: &'c Connection,
    pub(super) now: Timestamp,
    reached: Vec<(RunId, u64)>,
}

impl Tx<'_> {
    /// The run's log grows to `seq` if this job is committed.
    pub(super) fn log_reaches(&mut self, run: &RunId, seq: u64) {
        self.reached.push((run.clone(), seq));
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    jobs: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    commits: AtomicU64,
    writes: AtomicU64,
}

impl Writer {
    pub(super) fn start(sql: Connection, clock: Clock, watchers: Arc<Watchers>) -> Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let counters = Arc::new(Counters::default());
        let desk = Desk { sql, clock, watchers, counters: Arc::clone(&counters) };
        let thread = thread::Builder::new()
            .name("windlass-store-write".to_owned())
            .spawn(move || desk.work_off(queue))
            .map_err(|error| unavailable("start its writer", error))?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)), counters })
    }

    /// Carries out `work` and returns once its effect is durable. A caller that goes away does not stop it.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let closed = || unavailable("write", "the store is closed");
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Pending { work: Some(work), outcome: None, reply });
        jobs.ok_or_else(closed)?.send(job).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            commits: self.counters.commits.load(Ordering::Relaxed),
            writes: self.counters.writes.load(Ordering::Relaxed),
        }
    }

    /// Takes no more jobs, finishes those it has and folds the write-ahead log into the database.
    pub(super) fn close(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the store's writer panicked");
        }
    }

    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.jobs.lock().unwrap().as_ref().map_or(0, |jobs| jobs.max_capacity() - jobs.capacity())
    }
}

trait Job: Send {
    /// Whether what it did is to be kept.
    fn run(&mut self, tx: &mut Tx<'_>) -> bool;

    /// Tells the caller, now that the fate of the whole batch is known.
    fn answer(self: Box<Self>, batch: Result<()>);
}

struct Pending<T, F> {
    work: Option<F>,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Job for Pending<T, F>
where
    T: Send,
    F: FnOnce(&mut Tx<'_>) -> Result<T> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> bool {
        self.outcome = self.work.take().map(|work| work(tx));
        matches!(self.outcome, Some(Ok(_)))
    }

    fn answer(self: Box<Self>, batch: Result<()>) {
        let outcome = self.outcome.unwrap_or_else(|| Err(unavailable("write", "the write panicked")));
        // A caller that went away does not need the answer. A failed batch speaks for all of its jobs, since each may
        // have seen what another did.
        let _ = self.reply.send(batch.and(outcome));
    }
}

/// What the thread owns.
struct Desk {
    sql: Connection,
    clock: Clock,
    watchers: Arc<Watchers>,
    counters: Arc<Counters>,
}

impl Desk {
    fn work_off(mut self, mut queue: mpsc::Receiver<Box<dyn Job>>) {
        let mut batch = Vec::with_capacity(BATCH);
        while queue.blocking_recv_many(&mut batch, BATCH) > 0 {
            let outcome = self.commit(&mut batch);
            if let Ok(news) = &outcome {
                self.counters.commits.fetch_add(1, Ordering::Relaxed);
                self.counters.writes.fetch_add(batch.len() as u64, Ordering::Relaxed);
                news.iter().for_each(|(run, seq)| self.watchers.reached(run, *seq));
            }
            for job in batch.drain(..) {
                job.answer(outcome.as_ref().map(|_| ()).map_err(|error| unavailable("commit", error)));
            }
        }
        self.fold_log();
    }

    /// Runs the jobs in one transaction; returns which logs grew how far.
    fn commit(&mut self, batch: &mut [Box<dyn Job>]) -> rusqlite::Result<Vec<(RunId, u64)>> {
        let mut news = Vec::new();
        let mut transaction = self.sql.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for job in batch {
            let savepoint = transaction.savepoint()?;
            let mut tx = Tx { sql: &savepoint, now: (self.clock)(), reached: Vec::new() };
            let kept = catch_unwind(AssertUnwindSafe(|| job.run(&mut tx))).unwrap_or(false);
            let reached = tx.reached;
            if kept {
                savepoint.commit()?;
                news.extend(reached);
            } else {
                // Also fails when SQLite gave up the whole transaction, for example on a full disk.
                savepoint.finish()?;
            }
        }
        transaction.commit()?;
        Ok(news)
    }

    fn fold_log(&self) {
        let folded = self.sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        if let Err(error) = folded {
            // Nothing is lost: whoever opens the file next does it.
            tracing::warn!(%error, "the write-ahead log was not folded into the database");
        }
    }
}

fn unavailable(action: &'static str, detail: impl ToString) -> StoreError {
    StoreError::Unavailable { action, detail: detail.to_string() }
}
