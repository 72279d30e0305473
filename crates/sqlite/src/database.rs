//! Opens, uses and closes the database.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rusqlite::{Connection, hooks::Wal};
use tokio::sync::{oneshot, watch};

use crate::{
    Ack, DatabaseError, Failure, Options, Result, Stats, Ticket, Tx, check,
    checkpoint::Checkpointer,
    connection,
    damage::Damage,
    job::{FallibleJob, InfallibleJob, Job, Progress as JobProgress},
    log::{self, Log},
    migrate, private,
    readers::Readers,
    stats::Counters,
    transaction::Transaction,
    writer::{Executed, Order, Progress, Shared, Synced, Writer},
};

/// Limit of queued writes. Callers are expected to slow down long before.
pub(crate) const QUEUE: usize = 64 * 1024;

/// How long the result of a probe is cached.
const PROBE_CACHED: Duration = Duration::from_secs(1);

/// An open database file. Clones are the same database; dropping the last one closes it.
#[derive(Clone)]
pub struct Database {
    parts: Arc<Parts>,
}

struct Parts {
    path: PathBuf,
    log_path: PathBuf,
    orders: Sender<Order>,
    shared: Shared,
    queued: Arc<AtomicUsize>,
    closed: AtomicBool,
    counters: Arc<Counters>,
    hooks: Arc<FailedCommitHooks>,
    readers: Arc<Readers>,
    /// Whether a write was acknowledged that is not committed yet.
    ahead: Arc<AtomicBool>,
    /// Whether acknowledged writes were rolled back and must be replayed.
    replay_pending: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    synced: watch::Receiver<Synced>,
    damage: Arc<Damage>,
    /// Whether the write of a probe is pending.
    probing: Arc<AtomicBool>,
    /// Time and result of the last probe.
    probed: tokio::sync::Mutex<Option<(Instant, Result<()>)>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Database {
    /// Opens or creates the file and starts the writer.
    pub fn open(options: Options) -> Result<Self> {
        let Options { path, durability, faults } = options;
        if let Some(directory) = path.parent() {
            private::create_directory(directory).map_err(|error| {
                DatabaseError::unavailable("create its directory", format!("{}: {error}", directory.display()))
            })?;
        }
        check::prepare(&path)?;
        private::tighten_database(&path);
        let mut sql = connection::open_writer(&path)?;
        check::checkpoint_on_close(&sql, false)?;
        // Any read makes SQLite open the log, and create it if necessary.
        migrate::check_layout(&sql, &path)?;
        check::quick_check(&mut sql, &path)?;
        check::checkpoint_on_close(&sql, true)?;
        let log_path = log::path_of(&path)?;
        let log = Log::open(&log_path)?;
        let log_pages = Arc::new(AtomicI64::new(0));
        sql.wal_hook(Some({
            let log_pages = Arc::clone(&log_pages);
            move |_: &mut Wal, pages: i32| {
                log_pages.store(pages.into(), Ordering::Relaxed);
                Ok(())
            }
        }))?;
        let (orders, queue) = channel();
        let checkpointer = Checkpointer::start(connection::open_writer(&path)?, orders.clone())?;
        let (queued, counters, hooks) = (Arc::default(), Arc::default(), Arc::default());
        let (written, damage) = (Arc::default(), Arc::<Damage>::default());
        let (ahead, replay_pending) = (Arc::default(), Arc::default());
        let (synced, synced_receiver) = watch::channel(Synced::UpTo(0));
        let writer = Writer {
            log_pages,
            frame: log::frame(&sql)?,
            sql,
            log,
            durability,
            faults,
            counters: Arc::clone(&counters),
            queued: Arc::clone(&queued),
            hooks: Arc::clone(&hooks),
            progress: Progress::new(Arc::clone(&written), synced),
            checkpointer,
            idle_checkpoint_done: true,
            transaction: Transaction::default(),
            ahead: Arc::clone(&ahead),
            replay_pending: Arc::clone(&replay_pending),
        };
        let shared = Shared::new(writer);
        let thread = thread::Builder::new()
            .name("windlass-db-write".to_owned())
            .spawn({
                let shared = shared.clone();
                move || shared.run(&queue)
            })
            .map_err(|error| DatabaseError::unavailable("start its writer", error))?;
        let parts = Parts {
            readers: Arc::new(Readers::new(path.clone(), Arc::clone(&damage))),
            path,
            log_path,
            orders,
            shared,
            queued,
            closed: AtomicBool::new(false),
            counters,
            hooks,
            ahead,
            replay_pending,
            written,
            synced: synced_receiver,
            damage,
            probing: Arc::default(),
            probed: tokio::sync::Mutex::default(),
            writer: Mutex::new(Some(thread)),
        };
        Ok(Self { parts: Arc::new(parts) })
    }

    /// Creates or upgrades the tables of a component, whose version is the number of its migrations. Rejects a file
    /// that was written by a newer build. Blocks.
    pub fn migrate(&self, component: &'static str, migrations: &'static [&'static str]) -> Result<()> {
        let path = self.parts.path.clone();
        // A file that is up to date needs no write.
        let up_to_date = |sql: &Connection| {
            if !migrate::missing(sql, &path, component, migrations)?.is_empty() {
                return Ok(false);
            }
            migrate::check_tables(sql, &path, component, migrations).map(|()| true)
        };
        if self.read_blocking::<_, DatabaseError>(up_to_date)? {
            return Ok(());
        }
        let (reply, answer) = channel();
        let path = path.clone();
        self.enqueue(Box::new(FallibleJob {
            ack: Ack::Durable,
            work: move |tx: &Tx<'_>| migrate::migrate(tx, &path, component, migrations),
            progress: JobProgress::Waiting,
            reply: Some(move |outcome| _ = reply.send(outcome)),
        }));
        answer.recv().map_err(|_| DatabaseError::Closed)?
    }

    /// The version of a component's tables, 0 if there are none. Blocks.
    pub fn version(&self, component: &str) -> Result<usize> {
        self.read_blocking(|sql| migrate::found(sql, &self.parts.path, component))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.parts.path
    }

    /// Queues a write that may fail: its changes are undone if it returns an error or panics, and the rest of its batch
    /// is not affected. It may be executed twice. Writes are executed in the order in which they are submitted. Never
    /// blocks.
    pub fn submit<T, E, F>(&self, ack: Ack, work: F) -> Ticket<T, E>
    where
        T: Send + 'static,
        E: Failure,
        F: Fn(&Tx<'_>) -> std::result::Result<T, E> + Send + 'static,
    {
        let (job, ticket) = self.fallible(ack, work);
        self.enqueue(job);
        ticket
    }

    /// As [`submit`](Self::submit), but executes the write on this thread if no other write comes first. For writes that
    /// are short: the caller, and those after it, wait for its SQL.
    pub fn submit_at_once<T, E, F>(&self, ack: Ack, work: F) -> Ticket<T, E>
    where
        T: Send + 'static,
        E: Failure,
        F: Fn(&Tx<'_>) -> std::result::Result<T, E> + Send + 'static,
    {
        let (job, ticket) = self.fallible(ack, work);
        self.execute(job);
        ticket
    }

    fn fallible<T, E, F>(&self, ack: Ack, work: F) -> (Box<dyn Job>, Ticket<T, E>)
    where
        T: Send + 'static,
        E: Failure,
        F: Fn(&Tx<'_>) -> std::result::Result<T, E> + Send + 'static,
    {
        let (reply, ticket) = Ticket::new();
        let damage = Arc::clone(&self.parts.damage);
        let reply = move |outcome| {
            damage.note_outcome(&outcome);
            // The caller may have stopped waiting.
            let _ = reply.send(outcome);
        };
        (Box::new(FallibleJob { ack, work, progress: JobProgress::Waiting, reply: Some(reply) }), ticket)
    }

    /// Queues a write that only SQLite can fail, in one order with [`submit`](Self::submit). It is cheaper, because it
    /// cannot be undone alone: an error fails its whole batch. It may be executed twice. Never blocks.
    pub fn apply<T, F>(&self, ack: Ack, work: F) -> Ticket<T, DatabaseError>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let (job, ticket) = self.infallible(ack, work);
        self.enqueue(job);
        ticket
    }

    /// As [`apply`](Self::apply), but executes the write on this thread if no other write comes first, as
    /// [`submit_at_once`](Self::submit_at_once) does.
    pub fn apply_at_once<T, F>(&self, ack: Ack, work: F) -> Ticket<T, DatabaseError>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let (job, ticket) = self.infallible(ack, work);
        self.execute(job);
        ticket
    }

    fn infallible<T, F>(&self, ack: Ack, work: F) -> (Box<dyn Job>, Ticket<T, DatabaseError>)
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, ticket) = Ticket::new();
        let damage = Arc::clone(&self.parts.damage);
        (Box::new(InfallibleJob { ack, work, value: None, damage, reply: Some(reply) }), ticket)
    }

    /// Executes a write on this thread, or queues it.
    fn execute(&self, mut job: Box<dyn Job>) {
        if self.parts.closed.load(Ordering::Acquire) {
            return job.answer(Err(DatabaseError::Closed));
        }
        match self.parts.shared.execute_at_once(job, &self.parts.queued) {
            Executed::Done => {}
            // If the writer has ended, the dropped job reports that.
            Executed::Look => _ = self.parts.orders.send(Order::Look),
            Executed::NotYet(job) => self.enqueue(job),
        }
    }

    fn enqueue(&self, mut job: Box<dyn Job>) {
        if self.parts.closed.load(Ordering::Acquire) {
            return job.answer(Err(DatabaseError::Closed));
        }
        if self.parts.queued.fetch_add(1, Ordering::Relaxed) >= QUEUE {
            self.parts.queued.fetch_sub(1, Ordering::Relaxed);
            return job.answer(Err(DatabaseError::unavailable("write", "too many writes are queued")));
        }
        // If the writer has ended, the dropped job reports that.
        let _ = self.parts.orders.send(Order::Write(job));
    }

    /// Runs `work` on one snapshot of the database, on a blocking thread. It sees every acknowledged write.
    pub async fn read<T, E, F>(&self, work: F) -> std::result::Result<T, E>
    where
        T: Send + 'static,
        E: Failure,
        F: FnOnce(&Connection) -> std::result::Result<T, E> + Send + 'static,
    {
        if self.parts.ahead.load(Ordering::Acquire) {
            self.committed().await?;
        }
        self.parts.readers.read(work).await
    }

    /// Runs `work` on one snapshot of the database, on this thread. It sees every acknowledged write.
    pub fn read_blocking<T, E: Failure>(
        &self,
        work: impl FnOnce(&Connection) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if self.parts.ahead.load(Ordering::Acquire) {
            self.commit_blocking()?;
        }
        self.parts.readers.read_blocking(work)
    }

    /// As [`read_blocking`](Self::read_blocking), without a commit before it: it may miss the latest relaxed writes.
    /// After a failed commit it sees all writes that were acknowledged before.
    pub fn read_committed_blocking<T, E: Failure>(
        &self,
        work: impl FnOnce(&Connection) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if self.parts.replay_pending.load(Ordering::Acquire) {
            self.commit_blocking()?;
        }
        self.parts.readers.read_blocking(work)
    }

    fn commit_blocking(&self) -> Result<()> {
        let (reply, answer) = channel();
        self.ask_for_commit(move |outcome| _ = reply.send(outcome));
        answer.recv().map_err(|_| DatabaseError::Closed)?
    }

    /// Returns when every write that was queued before is committed or failed.
    pub async fn committed(&self) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.ask_for_commit(move |outcome| _ = reply.send(outcome));
        answer.await.map_err(|_| DatabaseError::Closed)?
    }

    fn ask_for_commit(&self, reply: impl FnOnce(Result<()>) + Send + 'static) {
        // If the writer has ended, the dropped reply reports that.
        let _ = self.parts.orders.send(Order::Commit(Box::new(reply)));
    }

    /// A read-only connection for the caller, to be dropped before the database is closed.
    pub fn reader(&self) -> Result<Connection> {
        connection::open_reader(&self.parts.path)
    }

    /// Returns when everything that this process has written before is durable. A reader that waits for this after its
    /// read has seen nothing that a power failure could undo.
    pub async fn synced(&self) -> Result<()> {
        let target = self.parts.written.load(Ordering::Acquire);
        let mut news = self.parts.synced.clone();
        let reached = |synced: &Synced| match synced {
            Synced::UpTo(number) => *number >= target,
            Synced::Broken(_) => true,
        };
        match &*news.wait_for(reached).await.map_err(|_| DatabaseError::Closed)? {
            Synced::UpTo(_) => Ok(()),
            Synced::Broken(error) => Err(error.clone()),
        }
    }

    /// Checks that the database works: writes a row, waits for the sync and reads the row back. Also fails after damage
    /// of the file was found. The result is shared by all probes within a second.
    pub async fn probe(&self) -> Result<()> {
        let mut last = self.parts.probed.lock().await;
        if let Some((at, outcome)) = &*last
            && at.elapsed() < PROBE_CACHED
        {
            return outcome.clone();
        }
        let outcome = self.probe_now().await;
        self.parts.damage.note_outcome(&outcome);
        *last = Some((Instant::now(), outcome.clone()));
        outcome
    }

    async fn probe_now(&self) -> Result<()> {
        self.parts.damage.check()?;
        // An earlier probe may have timed out. At most one write waits for a disk that hangs.
        if self.parts.probing.swap(true, Ordering::AcqRel) {
            return Err(DatabaseError::unavailable("write", "the write of an earlier probe is still pending"));
        }
        let probing = Arc::clone(&self.parts.probing);
        let (reply, answer) = oneshot::channel();
        self.enqueue(Box::new(FallibleJob {
            ack: Ack::Durable,
            work: |tx: &Tx<'_>| migrate::count_probe(tx),
            progress: JobProgress::Waiting,
            reply: Some(move |outcome| {
                probing.store(false, Ordering::Release);
                // A probe that gave up does not need the answer.
                let _ = reply.send(outcome);
            }),
        }));
        let written = answer.await.map_err(|_| DatabaseError::Closed)??;
        let read = self.read(migrate::probes).await?;
        if read < written {
            let detail = format!("probe {written} was written, but {read} was read back");
            return Err(DatabaseError::Damaged { detail });
        }
        self.parts.damage.check()
    }

    /// Calls `hook` in the writer thread after a batch failed, before its callers are told and before the next batch
    /// begins. A component whose memory is ahead of the database uses it to drop that state.
    pub fn on_failed_commit(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.parts.hooks.add(Box::new(hook));
    }

    pub fn stats(&self) -> Stats {
        let Parts { counters, path, log_path, .. } = &*self.parts;
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        Stats {
            commits: counters.commits.load(Ordering::Relaxed),
            syncs: counters.syncs.load(Ordering::Relaxed),
            writes: counters.writes.load(Ordering::Relaxed),
            database_bytes: size(path),
            log_bytes: size(log_path),
        }
    }

    /// Finishes the accepted writes, rejects new ones and closes the file. Dropping the last clone does the same, but
    /// blocks.
    pub async fn close(&self) -> Result<()> {
        let parts = Arc::clone(&self.parts);
        tokio::task::spawn_blocking(move || parts.shut_down())
            .await
            .map_err(|error| DatabaseError::unavailable("close", error))
    }

    /// Writes that wait for the writer thread.
    pub fn queued(&self) -> usize {
        self.parts.queued.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("path", &self.parts.path).finish_non_exhaustive()
    }
}

impl Parts {
    /// Closes the readers first: SQLite checkpoints and removes the log when the last connection may write.
    fn shut_down(&self) {
        self.closed.store(true, Ordering::Release);
        self.readers.close();
        let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        // A writer that has ended needs no order.
        let _ = self.orders.send(Order::Stop);
        // The last clone may be dropped by a write, on the writer thread.
        if writer.thread().id() != thread::current().id() && writer.join().is_err() {
            tracing::error!("the database's writer panicked");
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Callbacks for failed batches.
#[derive(Default)]
pub(crate) struct FailedCommitHooks {
    hooks: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl FailedCommitHooks {
    fn add(&self, hook: Box<dyn Fn() + Send + Sync>) {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner).push(hook);
    }

    pub(crate) fn call(&self) {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|hook| hook());
    }
}
