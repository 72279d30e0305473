//! The writer thread.
//!
//! It executes all queued writes in one transaction, so that many writes share one commit and one sync. It ends the
//! transaction when a caller waits for the disk or wants to read from it, and otherwise a little later. While nothing
//! is queued, uncommitted or unsynced, the thread sleeps.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
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
    job::{AfterSync, Job},
    log::Log,
    stats::Counters,
    transaction::{Transaction, execute},
};

/// Maximum number of jobs in a commit, which limits how long the first one waits.
pub(crate) const BATCH: usize = 512;

/// How long a relaxed write may stay uncommitted and unsynced. Meanwhile other processes cannot write.
pub(crate) const MAX_SYNC_DELAY: Duration = Duration::from_millis(10);

/// Interval between attempts to commit acknowledged writes again after a failed commit.
const RETRY: Duration = Duration::from_millis(250);

/// How long the writer must be idle before it checkpoints the log.
const IDLE: Duration = Duration::from_secs(1);

/// When a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Now,
    /// When a caller waits for the disk, when the transaction is large, or after a while.
    WhenAwaited,
}

pub(crate) enum Order {
    Write(Box<dyn Job>),
    /// A reader needs the writes that were executed before this.
    Commit(Box<dyn FnOnce(Result<()>) + Send>),
    /// The checkpointer has copied most of the log; the writer copies the rest while it executes nothing else.
    FinishCheckpoint,
    Stop,
}

/// The state of the thread.
pub(crate) struct Writer {
    pub(crate) sql: Connection,
    pub(crate) log: Log,
    /// Pages in the log after the last commit.
    pub(crate) log_pages: Arc<AtomicI64>,
    /// Bytes of a page in the log.
    pub(crate) frame: u64,
    pub(crate) durability: Durability,
    pub(crate) faults: Option<Arc<dyn Faults>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) queued: Arc<AtomicUsize>,
    pub(crate) hooks: Arc<FailedCommitHooks>,
    pub(crate) progress: Progress,
    pub(crate) checkpointer: Checkpointer,
    /// Whether the log was checkpointed while idle and nothing was written since.
    pub(crate) idle_checkpoint_done: bool,
    pub(crate) transaction: Transaction,
    /// Whether a write was acknowledged that is not committed yet.
    pub(crate) ahead: Arc<AtomicBool>,
    /// Whether a transaction with acknowledged writes was rolled back. Until they are committed, no write is
    /// acknowledged before the commit.
    pub(crate) replay_pending: Arc<AtomicBool>,
}

/// Progress of commits and syncs.
pub(crate) struct Progress {
    /// Number of the last transaction, incremented before any of its writes can be acknowledged.
    pub(crate) written: Arc<AtomicU64>,
    pub(crate) synced: watch::Sender<Synced>,
    /// Time of the oldest unsynced commit.
    pub(crate) unsynced_since: Option<Instant>,
    pub(crate) last_sync: Option<Instant>,
    pub(crate) after_sync: Vec<AfterSync>,
}

/// Which commits are durable.
#[derive(Debug, Clone)]
pub(crate) enum Synced {
    /// Everything up to the commit of this number.
    UpTo(u64),
    /// A sync failed. The contents of the disk are unknown until the file is read again, so all writes are rejected.
    Broken(DatabaseError),
}

impl Writer {
    pub(crate) fn run(mut self, orders: &Receiver<Order>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let mut next = match self.wait(orders) {
                Ok(order) => Some(order),
                Err(RecvTimeoutError::Timeout) => {
                    self.idle();
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
            self.queued.fetch_sub(batch.len(), Ordering::Relaxed);
            self.transaction.add(batch.drain(..));
            let end = if special.is_some() { End::Now } else { End::WhenAwaited };
            let outcome = self.process(end);
            match special {
                Some(Order::Commit(reply)) => reply(outcome),
                Some(Order::FinishCheckpoint) => self.finish_checkpoint(),
                Some(Order::Stop) => break,
                Some(Order::Write(_)) | None => {}
            }
        }
        // Acknowledged writes are committed before the thread ends.
        if self.progress.unsynced_since.is_some() {
            self.idle();
        }
        self.checkpointer.stop();
    }

    fn wait(&self, orders: &Receiver<Order>) -> std::result::Result<Order, RecvTimeoutError> {
        match self.progress.unsynced_since {
            Some(_) if self.must_replay() => orders.recv_timeout(RETRY),
            Some(since) => orders.recv_timeout(MAX_SYNC_DELAY.saturating_sub(since.elapsed())),
            None if !self.idle_checkpoint_done => orders.recv_timeout(IDLE),
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Commits, syncs and checkpoints what no caller waits for.
    fn idle(&mut self) {
        if self.progress.unsynced_since.is_some() {
            // A failure was reported to the waiting callers.
            if self.process(End::Now).is_ok() && self.progress.unsynced_since.is_some() {
                self.sync_unless_broken();
            }
            return;
        }
        self.idle_checkpoint_done = true;
        if self.may_checkpoint() && checkpoint::checkpoint_if_idle(&self.sql) {
            self.log.was_truncated();
        }
    }

    fn process(&mut self, end: End) -> Result<()> {
        if self.transaction.is_empty() {
            return Ok(());
        }
        let outcome = self.attempt(end);
        if let Err(error) = &outcome {
            self.roll_back(error);
        }
        outcome
    }

    fn attempt(&mut self, end: End) -> Result<()> {
        if let Synced::Broken(error) = &*self.progress.synced.borrow() {
            return Err(error.clone());
        }
        if let Some(faults) = &self.faults {
            faults.before_batch(&self.sql).map_err(|error| DatabaseError::batch_failed(&error))?;
        }
        if !self.transaction.has_begun() {
            self.progress.written.fetch_add(1, Ordering::Release);
        }
        self.transaction.execute_jobs(&self.sql)?;
        let awaited = end == End::Now || self.must_replay() || self.transaction.is_awaited();
        // Without a transaction there is no commit to share.
        if awaited || self.is_due() || self.transaction.len() >= BATCH || !self.transaction.has_begun() {
            return self.commit();
        }
        self.progress.unsynced_since.get_or_insert_with(Instant::now);
        self.ahead.store(true, Ordering::Release);
        self.transaction.answer();
        match self.transaction.is_prompt() && self.may_sync_for_a_reader() {
            true => self.commit(),
            false => Ok(()),
        }
    }

    fn commit(&mut self) -> Result<()> {
        let writes = self.transaction.len();
        let (begun, prompt) = (self.transaction.has_begun(), self.transaction.is_prompt());
        if begun {
            if let Some(faults) = &self.faults {
                faults.before_commit().map_err(|error| DatabaseError::batch_failed(&error))?;
            }
            execute(&self.sql, "COMMIT")?;
            Counters::add(&self.counters.commits, 1);
            Counters::add(&self.counters.writes, writes);
            self.idle_checkpoint_done = false;
        }
        self.replay_pending.store(false, Ordering::Release);
        self.ahead.store(false, Ordering::Release);
        let (mut unanswered, after_sync) = self.transaction.end();
        if begun {
            self.committed(after_sync);
        } else {
            self.mark_synced_if_clean();
        }
        self.answer(&mut unanswered);
        if prompt && self.progress.unsynced_since.is_some() && self.may_sync_for_a_reader() {
            self.sync_unless_broken();
        }
        self.maintain_log();
        Ok(())
    }

    /// Rolls the transaction back and fails the jobs that wait for it.
    fn roll_back(&mut self, error: &DatabaseError) {
        tracing::warn!(%error, writes = self.transaction.len(), "a batch of writes failed and was rolled back");
        if !self.sql.is_autocommit()
            && let Err(error) = execute(&self.sql, "ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
        let lost = self.transaction.roll_back();
        if !self.may_checkpoint() {
            self.transaction.discard();
        }
        self.replay_pending.store(!self.transaction.is_empty(), Ordering::Release);
        if !self.must_replay() {
            self.ahead.store(false, Ordering::Release);
            self.mark_synced_if_clean();
        }
        self.fail(lost, error);
    }

    /// Nothing was committed, so nothing waits for a sync.
    fn mark_synced_if_clean(&mut self) {
        if self.progress.unsynced_since.is_none() && self.may_checkpoint() {
            self.progress.mark_synced();
        }
    }

    fn must_replay(&self) -> bool {
        self.replay_pending.load(Ordering::Relaxed)
    }

    fn is_due(&self) -> bool {
        self.progress.unsynced_since.is_some_and(|since| since.elapsed() >= MAX_SYNC_DELAY)
    }

    /// Syncs for readers are limited in number, because writes wait during a sync.
    fn may_sync_for_a_reader(&self) -> bool {
        self.progress.last_sync.is_none_or(|last| last.elapsed() >= MAX_SYNC_DELAY)
    }

    fn committed(&mut self, after_sync: Vec<AfterSync>) {
        let progress = &mut self.progress;
        progress.after_sync.extend(after_sync);
        match self.durability {
            Durability::Full => _ = progress.unsynced_since.get_or_insert_with(Instant::now),
            Durability::Relaxed => progress.mark_synced(),
        }
    }

    /// Acknowledges relaxed writes, then syncs if a durable one waits or a sync is due.
    fn answer(&mut self, committed: &mut Vec<Box<dyn Job>>) {
        let safe = self.progress.unsynced_since.is_none();
        committed.extract_if(.., |job| safe || job.ack() != Ack::Durable).for_each(|mut job| job.answer(Ok(())));
        if safe || (committed.is_empty() && !self.is_due()) {
            return;
        }
        match self.sync() {
            Ok(()) => committed.drain(..).for_each(|mut job| job.answer(Ok(()))),
            Err(error) => self.fail(std::mem::take(committed), &error),
        }
    }

    fn sync_unless_broken(&mut self) {
        if let Err(error) = self.sync() {
            self.fail(Vec::new(), &error);
        }
    }

    fn sync(&mut self) -> Result<()> {
        let synced = self.faults.as_ref().map_or(Ok(()), |faults| faults.before_sync()).and_then(|()| self.log.sync());
        if let Err(error) = synced {
            tracing::error!(%error, "the sync of the write-ahead log failed; all further writes are rejected");
            let error = DatabaseError::SyncFailed { detail: error.to_string() };
            self.disable_checkpoints();
            self.progress.unsynced_since = None;
            self.progress.after_sync.clear();
            self.progress.synced.send_replace(Synced::Broken(error.clone()));
            return Err(error);
        }
        Counters::add(&self.counters.syncs, 1);
        self.progress.mark_synced();
        Ok(())
    }

    /// The hooks run first, so that no caller acts on its error before memory was dropped.
    fn fail(&self, lost: Vec<Box<dyn Job>>, error: &DatabaseError) {
        self.hooks.call();
        lost.into_iter().for_each(|mut job| job.answer(Err(error.clone())));
    }

    /// Checkpoints and preallocates the log. No caller waits meanwhile.
    fn maintain_log(&mut self) {
        let pages = self.log_pages.load(Ordering::Relaxed);
        self.checkpointer.look(&self.sql, pages);
        let used = pages.unsigned_abs() * self.frame;
        if self.durability == Durability::Full && self.log.is_nearly_full(used) {
            // The lock keeps other processes from writing to the log.
            let extended = execute(&self.sql, "BEGIN IMMEDIATE").and_then(|()| {
                let extended = self.log.extend(used);
                execute(&self.sql, "ROLLBACK")?;
                extended.map_err(|error| DatabaseError::unavailable("extend its write-ahead log", error))
            });
            if let Err(error) = extended {
                // Only the next commits become slower.
                tracing::debug!(%error, "the write-ahead log could not be preallocated");
            }
        }
    }

    fn finish_checkpoint(&mut self) {
        if self.may_checkpoint() {
            checkpoint::passive(&self.sql);
        }
        self.checkpointer.finished(&self.sql);
    }

    /// The contents of the log are unknown until it is opened again and its checksums are compared. Until then it must
    /// not be checkpointed, not even by SQLite when the connection is closed.
    fn disable_checkpoints(&self) {
        if let Err(error) = self.sql.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
            tracing::warn!(%error, "SQLite may checkpoint the write-ahead log before its checksums are compared");
        }
    }

    /// Whether the log may be checkpointed: a log that a failed sync has damaged would damage the file, too.
    fn may_checkpoint(&self) -> bool {
        matches!(*self.progress.synced.borrow(), Synced::UpTo(_))
    }
}

impl Progress {
    /// Marks all commits as durable.
    fn mark_synced(&mut self) {
        self.unsynced_since = None;
        self.last_sync = Some(Instant::now());
        self.synced.send_replace(Synced::UpTo(self.written.load(Ordering::Acquire)));
        self.after_sync.drain(..).for_each(|then| then());
    }
}
