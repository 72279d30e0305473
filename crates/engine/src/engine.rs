//! The engine as a component: its options, its background tasks, and the handle to call it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use temporalio_protos::temporal::api::enums::v1::IndexedValueType;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_sqlite::{Ack, Database, DatabaseError};

use crate::{
    Answer, Call,
    archive::Directory,
    clock::{Clock, SystemClock},
    core::{Core, Target},
    delivery,
    limits::Limits,
    persist::{self, NamespaceRecord},
    registry::RunKey,
    schedules,
    service::{Swept, run_batches},
    service_error::ServiceError,
    time::{Nanos, SECOND},
};

/// Interval between removals of closed runs whose retention has passed.
const SWEEP: Duration = Duration::from_secs(600);
const SWEPT_AT_ONCE: usize = 500;
/// Minimum pause between two recoveries.
const RECOVERY_PAUSE: Duration = Duration::from_millis(200);
/// Retention of the namespaces in [`Options`].
const RETENTION: Nanos = 30 * 24 * 3600 * SECOND;

#[derive(Clone)]
pub struct Options {
    pub database: Database,
    pub clock: Arc<dyn Clock>,
    pub limits: Limits,
    /// Namespaces to create on start, with their search attributes.
    pub namespaces: Vec<NamespaceOptions>,
    /// The directory that archives of closed runs may be in. Without it, nothing is archived.
    pub archive: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub struct NamespaceOptions {
    pub name: String,
    pub search_attributes: Vec<(String, IndexedValueType)>,
}

impl Options {
    /// The system clock, the limits of the real server and the namespace `default`.
    pub fn new(database: Database) -> Self {
        let default = NamespaceOptions { name: "default".to_owned(), search_attributes: Vec::new() };
        Self {
            database,
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
            namespaces: vec![default],
            archive: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    #[error("ENG0001: the engine cannot use its database: {0}")]
    Database(DatabaseError),
    #[error("ENG0002: {path} is in use by another engine (process {owner}); stop it, or use another data directory")]
    InUse { path: PathBuf, owner: String },
    #[error("ENG0003: the engine cannot lock {path}: {reason}; check that it may be written")]
    Lock { path: PathBuf, reason: std::io::Error },
}

/// The message contains the reason. As a source it would be printed twice.
impl From<DatabaseError> for EngineError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// An opened engine. Requests can be made through its handle at once; timers and deliveries work while [`Engine::run`]
/// runs.
pub struct Engine {
    core: Arc<Core>,
    deliveries: mpsc::UnboundedReceiver<RunKey>,
}

/// A handle to call an engine.
#[derive(Clone)]
pub struct Handle {
    core: Arc<Core>,
}

impl Engine {
    /// Loads the state from disk. Blocks.
    pub fn open(options: Options) -> Result<(Self, Handle), EngineError> {
        let (sender, deliveries) = mpsc::unbounded_channel();
        let core = Core::new(options.database, options.clock, options.limits, Directory(options.archive), sender)?;
        let handle = Handle { core: Arc::clone(&core) };
        for namespace in options.namespaces {
            core.ensure_namespace(namespace)?;
        }
        core.recover()?;
        Ok((Self { core, deliveries }, handle))
    }

    /// Fires timers, takes the turns of schedules, delivers outbox messages, executes batches and removes expired runs until
    /// `shutdown` is cancelled.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), EngineError> {
        let Self { core, deliveries } = self;
        let delivery = delivery::deliver(Arc::clone(&core), deliveries, shutdown.clone());
        let schedules = schedules::take_turns(&core, &shutdown);
        let batches = run_batches(&core, &shutdown);
        tokio::join!(
            delivery,
            batches,
            fire_wakeups(&core, &shutdown),
            schedules,
            recover(&core, &shutdown),
            sweep(&core, &shutdown)
        );
        Ok(())
    }
}

impl Handle {
    pub fn call(&self, call: Call) -> BoxFuture<'static, Answer> {
        Arc::clone(&self.core).call(call).boxed()
    }

    pub fn database(&self) -> &Database {
        &self.core.database
    }

    /// Number of workflow ids with runs in memory.
    pub fn cached(&self) -> usize {
        self.core.registry.cached()
    }
}

impl Core {
    /// Creates a namespace and its search attributes if they are missing. Blocks.
    fn ensure_namespace(&self, namespace: NamespaceOptions) -> Result<(), DatabaseError> {
        let NamespaceOptions { name, search_attributes } = namespace;
        let known = self.read_namespaces().custom_attributes(&name);
        let missing: Vec<_> = search_attributes.into_iter().filter(|(name, _)| !known.contains_key(name)).collect();
        let record = self.read_namespaces().id(&name).is_none().then(|| NamespaceRecord {
            name: name.clone(),
            id: uuid::Uuid::new_v4().to_string(),
            retention: RETENTION,
            ..NamespaceRecord::default()
        });
        if record.is_none() && missing.is_empty() {
            return Ok(());
        }
        let (written, done) = std::sync::mpsc::channel();
        let (kept, kept_record, namespace) = (missing.clone(), record.clone(), name.clone());
        let _reply_by_channel = self.database.apply(Ack::Durable, move |tx| {
            if let Some(record) = &kept_record {
                persist::save_namespace(tx, record)?;
            }
            kept.iter().try_for_each(|(attribute, kind)| persist::save_attribute(tx, &namespace, attribute, *kind))?;
            let written = written.clone();
            tx.after_sync(move || written.send(()).unwrap_or_default());
            Ok(())
        });
        done.recv().map_err(|_| DatabaseError::Closed)?;
        let mut namespaces = self.namespaces.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        namespaces.records.extend(record.map(|record| (name.clone(), record)));
        for (attribute, kind) in missing {
            namespaces.add_attribute(&name, attribute, kind);
        }
        Ok(())
    }

    /// Processes what is due for a run.
    fn wake_run(self: &Arc<Self>, run: &RunKey) {
        let woken = self.with_run_acked(&Target::of(run), Ack::Relaxed, |run, env| {
            self.wake(run, env);
            Ok(())
        });
        match woken {
            Ok(done) => done.value(),
            Err(ServiceError::NotFound(_)) => {}
            Err(error @ ServiceError::DataLoss(_)) => {
                tracing::error!(%error, run = &*run.run_id, "a run cannot be read; its timers and timeouts are not processed");
            }
            Err(error) => {
                tracing::warn!(%error, run = &*run.run_id, "due timers of a run could not be processed; retrying");
                self.wakeups.set(self.now() + SECOND, run.clone());
            }
        }
    }
}

async fn fire_wakeups(core: &Arc<Core>, shutdown: &CancellationToken) {
    loop {
        for run in core.wakeups.due(core.now()) {
            core.wake_run(&run);
        }
        let next = core.wakeups.next();
        let reached = async {
            match next {
                Some(at) => core.clock.reach(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = core.wakeups.changed() => {}
            () = reached => {}
        }
    }
}

/// Reloads the state from disk after a failed commit.
async fn recover(core: &Arc<Core>, shutdown: &CancellationToken) {
    while shutdown.run_until_cancelled(core.forgotten.notified()).await.is_some() {
        let taken_up = Arc::clone(core);
        let taken_up = tokio::task::spawn_blocking(move || taken_up.recover()).await;
        if !matches!(taken_up, Ok(Ok(()))) {
            tracing::warn!(?taken_up, "the state could not be loaded from disk; retrying");
            core.forgotten.notify_one();
        }
        shutdown.run_until_cancelled(tokio::time::sleep(RECOVERY_PAUSE)).await;
    }
}

/// Archives and removes closed runs whose retention has passed, and the runs of deleted namespaces.
async fn sweep(core: &Arc<Core>, shutdown: &CancellationToken) {
    loop {
        if let Err(error) = core.remove_deleted_namespaces().await {
            tracing::warn!(%error, "a deleted namespace could not be removed; it is tried again at the next sweep");
        }
        let namespaces: Vec<NamespaceRecord> = core.read_namespaces().records.values().cloned().collect();
        for namespace in namespaces.into_iter().filter(|namespace| namespace.retention > 0) {
            let before = core.now() - namespace.retention;
            core.remove_closed_schedules(&namespace.name, before).await;
            core.remove_batches(&namespace.name, before).await;
            while let Ok(Swept::Whole) = core.sweep(&namespace, SWEPT_AT_ONCE).await {
                if shutdown.is_cancelled() {
                    return;
                }
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = core.sweep_now.notified() => {}
            () = tokio::time::sleep(SWEEP) => {}
        }
    }
}
