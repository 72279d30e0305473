//! An engine in the test's process, with injected disk faults.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
};

use prost::Message;
use rusqlite::{Connection, Error, ffi};
use tempfile::TempDir;
use temporalio_protos::temporal::api::workflowservice::v1::PollWorkflowTaskQueueResponse;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use windlass_engine::{Call, Clock, Engine, Handle, Limits, Options, SystemClock, grpc};
use windlass_sqlite::{Database, Faults};

use super::client::Client;
use crate::support::server::namespaces;

const SERVICE: &str = "temporal.api.workflowservice.v1.WorkflowService";

/// Enough for any test.
const PLENTY: i64 = 1_000_000;

/// A write on its caller's thread, and the batch in which the writer's thread executes it again.
const FULL_BATCHES: usize = 2;

/// A disk that fails commits, is full, or blocks the writer.
#[derive(Default)]
pub(super) struct Disk {
    /// Commits that will fail.
    pub(super) failing: AtomicUsize,
    /// Batches that will find the disk full.
    full: AtomicUsize,
    /// Chooses the fault of each commit, if set.
    chance: Mutex<Option<Box<dyn FnMut() -> Fault + Send>>>,
    gate: Mutex<Option<(Sender<()>, Receiver<()>)>>,
    /// Failed batches so far.
    lost: watch::Sender<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    LostCommit,
    Full,
}

/// Blocks the writer: it reports when a commit is about to happen, and waits for the test.
pub(super) struct Gate {
    pub(super) arrived: Receiver<()>,
    pub(super) open: Sender<()>,
}

impl Disk {
    pub(super) fn choose(&self, chance: impl FnMut() -> Fault + Send + 'static) {
        *self.chance.lock().unwrap() = Some(Box::new(chance));
    }

    /// Waits until this many batches have failed.
    pub(super) async fn failed(&self, batches: usize) {
        self.lost.subscribe().wait_for(|lost| *lost >= batches).await.unwrap();
    }

    /// The number of failed batches.
    pub(super) fn losses(&self) -> usize {
        *self.lost.borrow()
    }

    /// No commit fails from now on.
    pub(super) fn heal(&self) {
        let mut chance = self.chance.lock().unwrap();
        *chance = None;
        self.failing.store(0, Ordering::SeqCst);
        self.full.store(0, Ordering::SeqCst);
    }

    /// The next commit waits at the gate.
    pub(super) fn shut_gate(&self) -> Gate {
        let ((arrive, arrived), (open, opened)) = (channel(), channel());
        *self.gate.lock().unwrap() = Some((arrive, opened));
        Gate { arrived, open }
    }
}

impl Faults for Disk {
    fn before_batch(&self, sql: &Connection) -> rusqlite::Result<()> {
        // SQLite interprets one page as "the current size".
        let pages = if take_one(&self.full) { 1 } else { PLENTY };
        sql.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
    }

    fn before_commit(&self) -> rusqlite::Result<()> {
        if let Some((arrive, opened)) = self.gate.lock().unwrap().take() {
            arrive.send(()).unwrap();
            opened.recv().unwrap();
        }
        let fault = self.chance.lock().unwrap().as_mut().map_or(Fault::None, |chance| chance());
        if fault == Fault::Full {
            self.full.store(FULL_BATCHES, Ordering::SeqCst);
        }
        if fault == Fault::LostCommit || take_one(&self.failing) {
            return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR), None));
        }
        Ok(())
    }
}

fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

/// The engine, called over TCP by clients and directly by the test.
pub(super) struct Host {
    pub(super) disk: Arc<Disk>,
    pub(super) handle: Handle,
    up: watch::Sender<bool>,
    port: u16,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Host {
    pub(super) async fn start(directory: &TempDir, limits: Limits) -> Self {
        Self::start_with(directory, limits, Arc::new(SystemClock)).await
    }

    pub(super) async fn start_with(directory: &TempDir, limits: Limits, clock: Arc<dyn Clock>) -> Self {
        let disk = Arc::new(Disk::default());
        let options = windlass_sqlite::Options {
            faults: Some(disk.clone()),
            ..windlass_sqlite::Options::new(file(directory.path()))
        };
        let database = Database::open(options).unwrap();
        let losses = Arc::clone(&disk);
        database.on_failed_commit(move || losses.lost.send_modify(|lost| *lost += 1));
        let options = Options { limits, clock, namespaces: namespaces(), ..Options::new(database) };
        let (engine, handle) = Engine::open(options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = CancellationToken::new();
        let served = handle.clone();
        let served = grpc::serve(listener, move |call| served.call(call), stop.clone());
        let run = engine.run(stop.clone());
        let tasks = vec![tokio::spawn(served), tokio::spawn(async move { run.await.unwrap() })];
        Self { disk, handle, up: watch::channel(true).0, port, stop, tasks }
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(super) fn client(&self) -> Client {
        Client::new(self.port, self.up.subscribe())
    }

    /// A request inside the process.
    pub(super) async fn call<A: Message + Default>(
        &self,
        rpc: &str,
        request: &impl Message,
        local: bool,
    ) -> Result<A, Status> {
        let call = Call {
            service: SERVICE.to_owned(),
            rpc: rpc.to_owned(),
            message: request.encode_to_vec().into(),
            timeout: None,
            client: String::new(),
            local,
        };
        Ok(A::decode(&*self.handle.call(call).await?).unwrap())
    }

    /// Stops the engine and closes its files.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
        self.handle.database().close().await.unwrap();
    }
}

pub(super) fn file(directory: &Path) -> PathBuf {
    directory.join("engine.db")
}

/// The workflow that a task is for.
pub(super) fn workflow_of(task: &PollWorkflowTaskQueueResponse) -> String {
    task.workflow_execution.clone().unwrap_or_default().workflow_id
}
