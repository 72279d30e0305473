//! The one thread that writes.
//!
//! It commits whatever has queued up in one transaction, so that many writers share the cost of one sync to disk, and
//! syncs if somebody in the batch waits for that. What nobody waits for is synced a little later. While nothing is
//! queued and nothing unsynced, the thread sleeps.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use rusqlite::{Connection, config::DbConfig};
use tokio::sync::watch;

use crate::{
    Ack, DatabaseError, Durability, Faults, Result,
    checkpoint::{self, Checkpointer},
    database::FailedCommitHooks,
    job::{AfterSync, Job, Tx, Verdict},
    log::Log,
    stats::Counters,
};

/// Jobs of one commit at most, so that the first of them is not kept waiting forever.
pub(crate) const BATCH: usize = 512;

/// How long a commit that nobody waits for stays unsynced.
const LINGER: Duration = Duration::from_millis(20);

/// How long nobody must have written anything for the log to be folded in.
const IDLE: Duration = Duration::from_secs(1);

pub(crate) enum Order {
    Write(Box<dyn Job>),
    /// The checkpointer has folded in most of the log; the rest is quickly done while nobody writes.
    FinishCheckpoint,
    Stop,
}

/// What the thread owns.
pub(crate) struct Writer {
    pub(crate) sql: Connection,
    pub(crate) log: Log,
    /// How long the log was after the last commit.
    pub(crate) log_pages: Arc<AtomicI64>,
    /// Bytes that a page takes in the log.
    pub(crate) frame: u64,
    pub(crate) durability: Durability,
    pub(crate) faults: Option<Arc<dyn Faults>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) queued: Arc<AtomicUsize>,
    pub(crate) hooks: Arc<FailedCommitHooks>,
    pub(crate) progress: Progress,
    pub(crate) checkpointer: Checkpointer,
    /// Whether nothing was written since the log was last folded in for want of other work.
    pub(crate) settled: bool,
}

/// Whether each job of a batch can be undone alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guards {
    None,
    Savepoints,
}

/// How far the commits have got.
pub(crate) struct Progress {
    /// Number of the last commit, counted before anybody can see it.
    pub(crate) written: Arc<AtomicU64>,
    pub(crate) synced: watch::Sender<Synced>,
    /// Since when there have been unsynced commits.
    pub(crate) unsynced_since: Option<Instant>,
    pub(crate) after_sync: Vec<AfterSync>,
}

/// How much of what was committed is safe.
#[derive(Debug, Clone)]
pub(crate) enum Synced {
    /// Everything up to the commit of this number.
    UpTo(u64),
    /// A sync failed. What the disk holds cannot be known without reading it anew, so nothing more is taken.
    Broken(DatabaseError),
}

impl Writer {
    pub(crate) fn work_off(mut self, orders: &Receiver<Order>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let mut next = match self.wait(orders) {
                Ok(order) => Some(order),
                Err(RecvTimeoutError::Timeout) => {
                    self.rest();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut special = None;
            while let Some(order) = next {
                match order {
                    Order::Write(job) => batch.push(job),
                    order => {
                        special = Some(order);
                        break;
                    }
                }
                next = if batch.len() < BATCH { orders.try_recv().ok() } else { None };
            }
            if !batch.is_empty() {
                self.queued.fetch_sub(batch.len(), Ordering::Relaxed);
                self.carry_out(&mut batch);
            }
            match special {
                Some(Order::FinishCheckpoint) => self.finish_checkpoint(),
                Some(Order::Stop) => break,
                _ => {}
            }
        }
        if self.progress.unsynced_since.is_some() {
            self.sync_unless_broken();
        }
        self.checkpointer.stop();
    }

    fn wait(&self, orders: &Receiver<Order>) -> std::result::Result<Order, RecvTimeoutError> {
        match self.progress.unsynced_since {
            Some(since) => orders.recv_timeout(LINGER.saturating_sub(since.elapsed())),
            None if !self.settled => orders.recv_timeout(IDLE),
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Nobody wants anything: time for what nobody waits for.
    fn rest(&mut self) {
        if self.progress.unsynced_since.is_some() {
            self.sync_unless_broken();
            return;
        }
        self.settled = true;
        if self.trusts_disk() && checkpoint::settle(&self.sql) {
            self.log.was_cut();
        }
    }

    fn carry_out(&mut self, batch: &mut Vec<Box<dyn Job>>) {
        match self.commit(batch) {
            Ok(kept) => {
                if let Some(after_sync) = kept {
                    self.settled = false;
                    Counters::add(&self.counters.commits, 1);
                    Counters::add(&self.counters.writes, batch.len());
                    self.committed(after_sync);
                }
                self.answer(batch);
                self.tend_log();
            }
            Err(error) => self.fail(batch.drain(..), &error),
        }
    }

    fn commit(&mut self, batch: &mut [Box<dyn Job>]) -> Result<Option<Vec<AfterSync>>> {
        if let Synced::Broken(error) = &*self.progress.synced.borrow() {
            return Err(error.clone());
        }
        let outcome = self.run(batch);
        if let Err(error) = &outcome {
            tracing::warn!(%error, writes = batch.len(), "a batch of writes was refused");
            if !self.sql.is_autocommit() {
                execute(&self.sql, "ROLLBACK")?;
            }
            if self.progress.unsynced_since.is_none() {
                self.progress.all_is_safe();
            }
        }
        outcome
    }

    /// Runs the jobs in one transaction; returns what they want done once it is safe, or nothing if nothing was kept.
    fn run(&self, batch: &mut [Box<dyn Job>]) -> Result<Option<Vec<AfterSync>>> {
        if let Some(faults) = &self.faults {
            faults.before_batch(&self.sql).map_err(|error| DatabaseError::of_batch(&error))?;
        }
        // A savepoint for every job costs more than all the batches that have to be run again, since hardly any job fails.
        let kept = self.attempt(batch, Guards::None)?;
        // Nobody needs protection from a job that is alone.
        if kept.is_some() || batch.len() == 1 {
            return Ok(kept);
        }
        self.attempt(batch, Guards::Savepoints)
    }

    /// Nothing is kept if a job that nothing guards has to be undone.
    fn attempt(&self, batch: &mut [Box<dyn Job>], guards: Guards) -> Result<Option<Vec<AfterSync>>> {
        let step = |sql| execute(&self.sql, sql);
        step("BEGIN IMMEDIATE")?;
        let mut after_sync = Vec::new();
        for job in batch.iter_mut() {
            let guarded = job.may_undo() && guards == Guards::Savepoints;
            if guarded {
                step("SAVEPOINT job")?;
            }
            let tx = Tx::new(&self.sql);
            let verdict = job.run(&tx);
            let wanted = tx.into_after_sync();
            if self.sql.is_autocommit() && !matches!(verdict, Verdict::Fail(_)) {
                return Err(DatabaseError::given_up());
            }
            match verdict {
                Verdict::Keep if guarded => step("RELEASE job")?,
                Verdict::Keep => {}
                Verdict::Undo if guarded => {
                    step("ROLLBACK TO job")?;
                    step("RELEASE job")?;
                }
                Verdict::Undo => {
                    step("ROLLBACK")?;
                    return Ok(None);
                }
                Verdict::Fail(error) => return Err(error),
            }
            if matches!(verdict, Verdict::Keep) {
                after_sync.extend(wanted);
            }
        }
        if let Some(faults) = &self.faults {
            faults.before_commit().map_err(|error| DatabaseError::of_batch(&error))?;
        }
        self.progress.written.fetch_add(1, Ordering::Release);
        step("COMMIT")?;
        Ok(Some(after_sync))
    }

    fn committed(&mut self, after_sync: Vec<AfterSync>) {
        let progress = &mut self.progress;
        progress.after_sync.extend(after_sync);
        match self.durability {
            Durability::Full => _ = progress.unsynced_since.get_or_insert_with(Instant::now),
            Durability::Relaxed => progress.all_is_safe(),
        }
    }

    /// Answers whoever does not wait for the disk, then syncs if anybody does or it is time to.
    fn answer(&mut self, batch: &mut Vec<Box<dyn Job>>) {
        if self.progress.unsynced_since.is_none() {
            batch.drain(..).for_each(|job| job.answer(Ok(())));
            return;
        }
        batch.extract_if(.., |job| job.ack() == Ack::Written).for_each(|job| job.answer(Ok(())));
        let due = self.progress.unsynced_since.is_some_and(|since| since.elapsed() >= LINGER);
        if batch.is_empty() && !due {
            return;
        }
        match self.sync() {
            Ok(()) => batch.drain(..).for_each(|job| job.answer(Ok(()))),
            Err(error) => self.fail(batch.drain(..), &error),
        }
    }

    fn sync_unless_broken(&mut self) {
        if let Err(error) = self.sync() {
            self.fail(std::iter::empty(), &error);
        }
    }

    fn sync(&mut self) -> Result<()> {
        let synced = self.faults.as_ref().map_or(Ok(()), |faults| faults.before_sync()).and_then(|()| self.log.sync());
        if let Err(error) = synced {
            tracing::error!(%error, "the write-ahead log was not synced; no more writes are taken");
            let error = DatabaseError::SyncFailed { detail: error.to_string() };
            self.distrust_disk();
            self.progress.unsynced_since = None;
            self.progress.after_sync.clear();
            self.progress.synced.send_replace(Synced::Broken(error.clone()));
            return Err(error);
        }
        Counters::add(&self.counters.syncs, 1);
        self.progress.all_is_safe();
        Ok(())
    }

    /// Whoever keeps state of their own learns first, so that nobody acts on an answer before that.
    fn fail(&self, batch: impl Iterator<Item = Box<dyn Job>>, error: &DatabaseError) {
        self.hooks.call();
        batch.for_each(|job| job.answer(Err(error.clone())));
    }

    /// What the log needs now and then. Nobody waits for an answer meanwhile.
    fn tend_log(&mut self) {
        let pages = self.log_pages.load(Ordering::Relaxed);
        self.checkpointer.look(&self.sql, pages);
        let used = pages.unsigned_abs() * self.frame;
        if self.durability == Durability::Full && self.log.is_cramped(used) {
            // Other processes may write to the log too, but not while this one holds the lock.
            let extended = execute(&self.sql, "BEGIN IMMEDIATE").and_then(|()| {
                let extended = self.log.extend(used);
                execute(&self.sql, "ROLLBACK")?;
                extended.map_err(|error| DatabaseError::unavailable("extend its write-ahead log", error))
            });
            if let Err(error) = extended {
                // It only makes the next commits slower.
                tracing::debug!(%error, "the write-ahead log was not extended");
            }
        }
    }

    fn finish_checkpoint(&mut self) {
        if self.trusts_disk() {
            checkpoint::fold(&self.sql);
        }
        self.checkpointer.finished(&self.sql);
    }

    /// What the log's file holds is found out when it is opened anew and its checksums are compared. Until then it must
    /// not be folded in, not even by SQLite itself when the connection is closed.
    fn distrust_disk(&self) {
        if let Err(error) = self.sql.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
            tracing::warn!(%error, "the write-ahead log may be folded in unread");
        }
    }

    /// Whether the log may be folded in: a log that a failed sync has damaged would spoil the file too.
    fn trusts_disk(&self) -> bool {
        matches!(*self.progress.synced.borrow(), Synced::UpTo(_))
    }
}

impl Progress {
    /// Everything that was committed is as safe as it is to become.
    fn all_is_safe(&mut self) {
        self.unsynced_since = None;
        self.synced.send_replace(Synced::UpTo(self.written.load(Ordering::Acquire)));
        self.after_sync.drain(..).for_each(|then| then());
    }
}

fn execute(sql: &Connection, statement: &str) -> Result<()> {
    let done = sql.prepare_cached(statement).and_then(|mut statement| statement.execute([]));
    done.map(drop).map_err(|error| DatabaseError::of_batch(&error))
}
