//! The writer: the open transaction, and the thread that ends it.
//!
//! All writes of a process share one connection, one transaction and one sync. A write is executed at once, on the thread
//! of its caller, if no other write waits before it ([`Writer::execute_at_once`]); otherwise the writer's thread executes
//! what is queued. Only the thread commits, syncs and undoes. It ends the transaction when a caller waits for the disk or
//! wants to read from it, and otherwise a little later. While it syncs, the next transaction is under way.

use std::{
    fs::File,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
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
    connection,
    database::FailedCommitHooks,
    job::{AfterSync, Job},
    log::Log,
    stats::Counters,
    transaction::{AtOnce, Transaction, execute},
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
    /// Something was executed that the thread has to commit or to undo.
    Look,
    /// A reader needs the writes that were executed before this.
    Commit(Box<dyn FnOnce(Result<()>) + Send>),
    /// The checkpointer has copied most of the log; the writer copies the rest while it executes nothing else.
    FinishCheckpoint,
    Stop,
}

/// The writer, shared by its thread and the callers. Without one, the thread has ended.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Option<Writer>>>);

/// What became of a job that a caller tried to execute.
pub(crate) enum Executed {
    /// The thread need not know yet.
    Done,
    /// The thread has to look.
    Look,
    /// Others come before it, or another thread is writing.
    NotYet(Box<dyn Job>),
}

/// What the thread does after it has executed writes.
enum Then {
    GoOn,
    Sync(Syncing),
}

/// A sync of the log, and who waits for it.
struct Syncing {
    /// The last commit that it covers.
    number: u64,
    /// `None` if the database does not sync.
    log: Option<Arc<File>>,
    faults: Option<Arc<dyn Faults>>,
    after: Vec<AfterSync>,
    awaiting: Vec<Box<dyn Job>>,
}

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
    /// Number of the last transaction that was committed.
    committed: u64,
    /// Time of the oldest relaxed write that is uncommitted or unsynced, and in no sync under way.
    unsynced_since: Option<Instant>,
    last_sync: Option<Instant>,
    last_commit: Instant,
    /// Waits for the next sync.
    after_sync: Vec<AfterSync>,
    awaiting: Vec<Box<dyn Job>>,
    /// The thread is to sync.
    sync_wanted: bool,
    syncing: bool,
    /// The thread looks by itself within [`MAX_SYNC_DELAY`].
    attentive: bool,
}

/// Which commits are durable.
#[derive(Debug, Clone)]
pub(crate) enum Synced {
    /// Everything up to the commit of this number.
    UpTo(u64),
    /// A sync failed. The contents of the disk are unknown until the file is read again, so all writes are rejected.
    Broken(DatabaseError),
}

impl Shared {
    pub(crate) fn new(writer: Writer) -> Self {
        Self(Arc::new(Mutex::new(Some(writer))))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Writer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Writer) -> T) -> Option<T> {
        self.lock().as_mut().map(act)
    }

    /// Executes a job on this thread, if no job waits before it and no other thread is writing. Never waits.
    pub(crate) fn execute_at_once(&self, job: Box<dyn Job>, queued: &AtomicUsize) -> Executed {
        if queued.load(Ordering::Acquire) > 0 {
            return Executed::NotYet(job);
        }
        match self.0.try_lock() {
            Ok(mut writer) => match &mut *writer {
                Some(writer) => writer.execute_at_once(job),
                None => Executed::NotYet(job),
            },
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => Executed::NotYet(job),
        }
    }

    /// The writer's thread. It ends after [`Order::Stop`].
    pub(crate) fn run(&self, orders: &Receiver<Order>) {
        let mut stop = false;
        while !stop {
            let Some(wait) = self.with(Writer::wait) else { return };
            let next = match wait {
                Some(wait) => orders.recv_timeout(wait),
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let then = match next {
                Ok(order) => self.with(|writer| {
                    let (then, stopped) = writer.carry_out(order, orders);
                    stop = stopped;
                    then
                }),
                Err(RecvTimeoutError::Timeout) => self.with(Writer::idle),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.finish(then.unwrap_or(Then::GoOn));
        }
        // Acknowledged writes are committed before the thread ends.
        let then = self.with(Writer::end_transaction);
        self.finish(then.unwrap_or(Then::GoOn));
        // The file is closed here, also if clones of this are left.
        if let Some(mut writer) = self.lock().take() {
            writer.checkpointer.stop();
        }
    }

    /// Syncs, if that is what comes next. Callers execute writes meanwhile.
    fn finish(&self, then: Then) {
        let Then::Sync(Syncing { number, log, faults, after, awaiting }) = then else { return };
        let synced = match &log {
            Some(log) => faults.map_or(Ok(()), |faults| faults.before_sync()).and_then(|()| log.sync_data()),
            None => Ok(()),
        };
        let outcome = self.with(|writer| writer.synced(number, log.is_some(), synced));
        match outcome {
            Some(Err(error)) => awaiting.into_iter().for_each(|mut job| job.answer(Err(error.clone()))),
            _ => {
                after.into_iter().for_each(|then| then());
                awaiting.into_iter().for_each(|mut job| job.answer(Ok(())));
            }
        }
    }
}

impl Writer {
    /// See [`Shared::execute_at_once`].
    fn execute_at_once(&mut self, job: Box<dyn Job>) -> Executed {
        // The queue is emptied under the lock, so nothing comes before this job.
        let first = self.queued.load(Ordering::Acquire) == 0 && self.transaction.is_up_to_date();
        if !first || self.must_replay() || !self.may_checkpoint() || !self.has_begun_without_waiting() {
            return Executed::NotYet(job);
        }
        if self.faults.as_ref().is_some_and(|faults| faults.before_batch(&self.sql).is_err()) {
            return Executed::NotYet(job);
        }
        let ack = job.ack();
        if self.transaction.execute_at_once(&self.sql, job) == AtOnce::Undone || ack == Ack::Durable {
            return Executed::Look;
        }
        if self.transaction.is_awaited() {
            // It may have seen a write before it that is lost if the commit fails. The thread was told of that one.
            return Executed::Done;
        }
        let attended = self.progress.unsynced_since.is_some() || self.progress.attentive;
        self.progress.unsynced_since.get_or_insert_with(Instant::now);
        self.ahead.store(true, Ordering::Release);
        self.transaction.answer_last();
        let hurry = ack == Ack::Eager || (ack == Ack::Prompt && self.may_sync_for_a_reader());
        match attended && !hurry && self.transaction.len() < BATCH {
            true => Executed::Done,
            false => Executed::Look,
        }
    }

    /// Begins a transaction, unless another process is writing.
    fn has_begun_without_waiting(&mut self) -> bool {
        if self.transaction.has_begun() {
            return true;
        }
        let begun = self.sql.busy_timeout(Duration::ZERO).is_ok() && self.transaction.begin(&self.sql).is_ok();
        if let Err(error) = self.sql.busy_timeout(connection::BUSY_TIMEOUT) {
            tracing::warn!(%error, "the busy timeout of a connection could not be restored");
        }
        if begun {
            self.progress.written.fetch_add(1, Ordering::Release);
        }
        begun
    }

    /// How long the thread waits for an order; `None` for as long as there is none.
    fn wait(&mut self) -> Option<Duration> {
        let quiet = self.progress.last_commit.elapsed();
        let wait = match self.progress.unsynced_since {
            Some(_) if self.must_replay() => Some(RETRY),
            Some(since) => Some(MAX_SYNC_DELAY.saturating_sub(since.elapsed())),
            // More writes are likely, and callers that begin a transaction need not wake the thread.
            None if !self.idle_checkpoint_done && quiet < IDLE => Some(MAX_SYNC_DELAY),
            None if !self.idle_checkpoint_done => Some(Duration::ZERO),
            None => None,
        };
        self.progress.attentive = wait.is_some_and(|wait| wait <= MAX_SYNC_DELAY);
        wait
    }

    /// Executes what is queued, up to the next order of another kind. Returns whether that ends the thread.
    fn carry_out(&mut self, order: Order, orders: &Receiver<Order>) -> (Then, bool) {
        let (mut batch, mut special, mut next) = (Vec::new(), None, Some(order));
        while let Some(order) = next {
            match order {
                Order::Write(job) => batch.push(job),
                Order::Look => {}
                order => {
                    special = Some(order);
                    break;
                }
            }
            next = if batch.len() < BATCH { orders.try_recv().ok() } else { None };
        }
        self.queued.fetch_sub(batch.len(), Ordering::AcqRel);
        self.transaction.add(batch.into_iter());
        let outcome = self.process(if special.is_some() { End::Now } else { End::WhenAwaited });
        let mut stop = false;
        match special {
            Some(Order::Commit(reply)) => reply(outcome),
            Some(Order::FinishCheckpoint) => self.finish_checkpoint(),
            Some(Order::Stop) => stop = true,
            Some(Order::Write(_) | Order::Look) | None => {}
        }
        (self.then(), stop)
    }

    /// Commits, syncs and checkpoints what no caller waits for.
    fn idle(&mut self) -> Then {
        if !self.transaction.is_empty() || self.progress.unsynced_since.is_some() {
            return match self.progress.unsynced_since {
                // Callers have begun a transaction since the thread went to wait.
                Some(since) if since.elapsed() < MAX_SYNC_DELAY => Then::GoOn,
                _ => self.end_transaction(),
            };
        }
        if self.progress.last_commit.elapsed() >= IDLE {
            self.idle_checkpoint_done = true;
            if self.may_checkpoint() && checkpoint::checkpoint_if_idle(&self.sql) {
                self.log.was_truncated();
            }
        }
        Then::GoOn
    }

    /// Commits and syncs everything.
    fn end_transaction(&mut self) -> Then {
        // A failure was reported to the waiting callers.
        if self.process(End::Now).is_ok() && self.progress.unsynced_since.is_some() {
            self.progress.sync_wanted = true;
        }
        self.then()
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
        match self.is_in_a_hurry() {
            true => self.commit(),
            false => Ok(()),
        }
    }

    fn commit(&mut self) -> Result<()> {
        let writes = self.transaction.len();
        let (begun, hurry) = (self.transaction.has_begun(), self.is_in_a_hurry());
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
        let (unanswered, after_sync) = self.transaction.end();
        let progress = &mut self.progress;
        if begun {
            progress.committed = progress.written.load(Ordering::Acquire);
            progress.last_commit = Instant::now();
            progress.after_sync.extend(after_sync);
            progress.unsynced_since.get_or_insert_with(Instant::now);
            progress.sync_wanted |= self.durability == Durability::Relaxed;
        } else {
            self.mark_synced_if_clean();
        }
        self.answer(unanswered);
        let since_last = self.progress.unsynced_since.is_some();
        self.progress.sync_wanted |= since_last && (self.is_due() || hurry);
        self.maintain_log();
        Ok(())
    }

    /// Acknowledges relaxed writes. Durable ones wait for the next sync, if there is anything to sync.
    fn answer(&mut self, committed: Vec<Box<dyn Job>>) {
        let safe = self.progress.unsynced_since.is_none();
        for mut job in committed {
            if safe || job.ack() != Ack::Durable {
                job.answer(Ok(()));
            } else {
                self.progress.awaiting.push(job);
                self.progress.sync_wanted = true;
            }
        }
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
        // The hooks run first, so that no caller acts on its error before memory was dropped.
        self.hooks.call();
        lost.into_iter().for_each(|mut job| job.answer(Err(error.clone())));
    }

    /// Nothing was committed, so nothing waits for a sync.
    fn mark_synced_if_clean(&mut self) {
        if self.progress.unsynced_since.is_none() && self.may_checkpoint() && !self.progress.syncing {
            self.progress.mark_synced(self.progress.written.load(Ordering::Acquire));
        }
    }

    fn must_replay(&self) -> bool {
        self.replay_pending.load(Ordering::Relaxed)
    }

    fn is_due(&self) -> bool {
        self.progress.unsynced_since.is_some_and(|since| since.elapsed() >= MAX_SYNC_DELAY)
    }

    /// Whether acknowledged writes of the transaction are to be synced at once.
    fn is_in_a_hurry(&self) -> bool {
        self.transaction.is_eager() || (self.transaction.is_prompt() && self.may_sync_for_a_reader())
    }

    /// Syncs for readers are limited in number, because each one costs processor time.
    fn may_sync_for_a_reader(&self) -> bool {
        self.progress.last_sync.is_none_or(|last| last.elapsed() >= MAX_SYNC_DELAY)
    }

    /// What comes next. A sync takes everything that waits for one.
    fn then(&mut self) -> Then {
        let progress = &mut self.progress;
        if !std::mem::take(&mut progress.sync_wanted) {
            return Then::GoOn;
        }
        progress.syncing = true;
        // A transaction that callers begin from now on has its own time.
        progress.unsynced_since = None;
        Then::Sync(Syncing {
            number: progress.committed,
            log: (self.durability == Durability::Full).then(|| self.log.file()),
            faults: self.faults.clone(),
            after: std::mem::take(&mut progress.after_sync),
            awaiting: std::mem::take(&mut progress.awaiting),
        })
    }

    /// A sync has ended.
    fn synced(&mut self, number: u64, counts: bool, outcome: io::Result<()>) -> Result<()> {
        self.progress.syncing = false;
        if let Err(error) = outcome {
            tracing::error!(%error, "the sync of the write-ahead log failed; all further writes are rejected");
            let error = DatabaseError::SyncFailed { detail: error.to_string() };
            self.disable_checkpoints();
            self.progress.unsynced_since = None;
            self.progress.synced.send_replace(Synced::Broken(error.clone()));
            // Also what callers have executed meanwhile.
            self.roll_back(&error);
            return Err(error);
        }
        Counters::add(&self.counters.syncs, usize::from(counts));
        let clean = !self.transaction.has_begun() && self.progress.unsynced_since.is_none();
        self.progress.mark_synced(if clean { self.progress.written.load(Ordering::Acquire) } else { number });
        Ok(())
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
    pub(crate) fn new(written: Arc<AtomicU64>, synced: watch::Sender<Synced>) -> Self {
        Self {
            written,
            synced,
            committed: 0,
            unsynced_since: None,
            last_sync: None,
            last_commit: Instant::now(),
            after_sync: Vec::new(),
            awaiting: Vec::new(),
            sync_wanted: false,
            syncing: false,
            attentive: false,
        }
    }

    /// Marks commits as durable.
    fn mark_synced(&mut self, number: u64) {
        self.last_sync = Some(Instant::now());
        self.synced.send_replace(Synced::UpTo(number));
    }
}
