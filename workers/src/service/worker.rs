//! The worker: it polls a task queue and executes runs and their activities.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use temporalio_client::{Client, NamespacedClient as _};
use temporalio_common::worker::{VersioningBehavior, WorkerDeploymentOptions, WorkerDeploymentVersion};
use temporalio_sdk::{
    Runtime, Worker, WorkerOptions,
    runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_activities::{Heartbeats, Owners, RunActivities};
use windlass_core::{
    heartbeat::Heartbeat,
    ids::{InstallationId, RunId, WorkspaceId},
};
use windlass_ops::{Pairing, PairingError, RunOps};
use windlass_workflows::{PushWorkflow, RunWorkflow};

use super::{Ports, unknown_signals::UnknownSignals};
use crate::temporal::{Connect, connect};

/// How often the worker checks that the task queue still belongs to its installation.
const OWNER_CHECK: Duration = Duration::from_secs(30);

/// Activities that a worker executes at once. Most of them wait, for a model or for a tool.
const ACTIVITIES: usize = 1_000;
/// Workflow tasks and local activities at once: they wait for nothing but the store.
const TASKS: usize = 100;

/// Options of a worker.
#[derive(Debug, Clone)]
pub struct RunWorkerOptions {
    pub task_queue: String,
    /// Size of the workflow cache. A run that is not cached is replayed when it has a new task.
    pub max_cached_runs: usize,
    /// How long activities may continue after the shutdown began.
    pub grace: Duration,
    /// Enables worker versioning with the auto-upgrade behaviour: the server routes each workflow task to the current build
    /// of the deployment, so a run that waited moves to that build when it continues.
    pub deployment: Option<Deployment>,
}

/// A named, versioned set of workers.
#[derive(Debug, Clone)]
pub struct Deployment {
    pub name: String,
    pub build_id: String,
}

impl Deployment {
    /// Auto-upgrade, so that the workers of an old build can be stopped although runs wait for weeks.
    pub(crate) fn versioning(&self) -> WorkerDeploymentOptions {
        let version = WorkerDeploymentVersion::builder()
            .deployment_name(self.name.clone())
            .build_id(self.build_id.clone())
            .build();
        WorkerDeploymentOptions::new(version)
            .use_worker_versioning(true)
            .default_versioning_behavior(VersioningBehavior::AutoUpgrade)
            .build()
    }
}

impl Default for RunWorkerOptions {
    fn default() -> Self {
        Self {
            task_queue: "windlass".to_owned(),
            max_cached_runs: 250,
            grace: Duration::from_secs(10),
            deployment: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    #[error("OPS0005: the worker cannot start: {0}")]
    Start(String),
    #[error("OPS0006: the worker stopped: {0}; start it again; runs continue where they were")]
    Stopped(String),
    #[error(transparent)]
    Foreign(#[from] PairingError),
}

/// A worker that is not running yet.
pub struct WorkerService {
    worker: Worker,
    ops: RunOps,
    /// Receives the error that stops this worker: it got a run that belongs to another store.
    foreign: mpsc::Receiver<PairingError>,
    draining: CancellationToken,
    grace: Duration,
}

/// Asks the server about runs: which installation one belongs to, and for heartbeats of its activities.
struct Guard {
    ops: RunOps,
    foreign: mpsc::Sender<PairingError>,
}

#[async_trait]
impl Owners for Guard {
    async fn owner_of(&self, run: &RunId) -> Option<InstallationId> {
        self.ops.owner_of(run).await.ok().flatten()
    }

    async fn met_foreign_run(&self, run: &RunId, found: &InstallationId) {
        match self.ops.pair(Pairing::Look).await {
            Err(error @ PairingError::Foreign { .. }) => {
                self.foreign.try_send(error).ok();
            }
            // The server does not store the pairing, so the run decides: this worker uses the wrong store.
            Ok(paired) if !paired.kept => {
                let (namespace, task_queue) = (self.ops.client().namespace(), self.ops.task_queue().to_owned());
                let (own, found) = (paired.installation.id, found.clone());
                self.foreign.try_send(PairingError::Foreign { namespace, task_queue, own, found }).ok();
            }
            // The task queue belongs to this installation, so the run is on the wrong task queue.
            _ => tracing::warn!(%run, %found, "this task queue has a run of another installation; it is not executed"),
        }
    }
}

#[async_trait]
impl Heartbeats for Guard {
    async fn last(&self, run: &RunId, activity: &str) -> Option<Heartbeat> {
        // Asked again soon.
        self.ops.heartbeat(run, activity).await.ok().flatten()
    }
}

impl WorkerService {
    pub fn new(client: Client, ports: Ports, options: &RunWorkerOptions) -> Result<Self, WorkerError> {
        let start = |error: &dyn std::fmt::Display| WorkerError::Start(error.to_string());
        let runtime = Runtime::from_current_tokio(Default::default()).map_err(|error| start(&error))?;
        let draining = CancellationToken::new();
        let ops =
            RunOps::new(client.clone(), Arc::clone(&ports.store), options.task_queue.clone(), WorkspaceId::default());
        let (sender, foreign) = mpsc::channel(1);
        let owners = Arc::new(Guard { ops: ops.clone(), foreign: sender });
        let unknown_signals = UnknownSignals::new(Arc::clone(&ports.store));
        let activities = RunActivities::new(
            ports.store,
            ports.vault,
            ports.models.registry().clone(),
            ports.tools,
            ports.agents,
            Arc::clone(&owners) as _,
            draining.clone(),
        )
        .with_renderer(windlass_api::notifications)
        .with_heartbeats(owners);
        let worker_options = WorkerOptions::new(options.task_queue.clone())
            .register_activities(activities)
            .register_workflow::<RunWorkflow>()
            .and_then(|options| options.register_workflow::<PushWorkflow>())
            .map_err(|error| start(&error))?
            .worker_interceptor(unknown_signals)
            .max_cached_workflows(options.max_cached_runs)
            .tuner(slots())
            .graceful_shutdown_period(options.grace)
            // A cancellation or a lost lease must reach an activity within its heartbeat timeout.
            .max_heartbeat_throttle_interval(Duration::from_secs(5))
            .default_heartbeat_throttle_interval(Duration::from_secs(5))
            .maybe_deployment_options(options.deployment.as_ref().map(Deployment::versioning))
            .build();
        let worker = Worker::new(&runtime, client, worker_options).map_err(|error| start(&error))?;
        Ok(Self { worker, ops, foreign, draining, grace: options.grace })
    }

    /// Polls until the shutdown, then gives activities the grace period. Workflows are not `Send`, so they run on a thread
    /// of their own.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), WorkerError> {
        let Self { mut worker, ops, mut foreign, draining, grace } = self;
        let stop = worker.shutdown_handle();
        let handle = tokio::runtime::Handle::current();
        let (ended, end) = tokio::sync::oneshot::channel();
        std::thread::Builder::new()
            .name("windlass-runs".to_owned())
            .spawn(move || {
                let result = handle.block_on(worker.run());
                ended.send(result.map_err(|error| error.to_string())).ok();
            })
            .map_err(|error| WorkerError::Start(error.to_string()))?;
        tracing::debug!(task_queue = ops.task_queue(), "worker starts polling");
        let mut end = std::pin::pin!(end);
        let ended = tokio::select! {
            ended = &mut end => ended,
            () = shutdown.cancelled() => {
                tracing::info!("worker is shutting down");
                draining.cancel();
                stop();
                end.await
            }
            error = wrong_installation(&ops, &mut foreign) => {
                draining.cancel();
                stop();
                // The activity that opens the run retries until the worker ends, so the wait is bounded.
                tokio::time::timeout(grace, end).await.ok();
                return Err(error.into());
            }
        };
        match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(WorkerError::Stopped(error)),
            Err(_) => Err(WorkerError::Stopped("its thread ended".to_owned())),
        }
    }
}

fn slots() -> TunerHolder {
    TunerHolder::builder()
        .workflow_task_slot_supplier(FixedSizeSlotSupplier::new(TASKS))
        .activity_task_slot_supplier(FixedSizeSlotSupplier::new(ACTIVITIES))
        .local_activity_task_slot_supplier(FixedSizeSlotSupplier::new(TASKS))
        .nexus_task_slot_supplier(FixedSizeSlotSupplier::new(TASKS))
        .build()
}

/// Returns when the task queue belongs to another installation: a run showed it, or another store was paired with it.
async fn wrong_installation(ops: &RunOps, met: &mut mpsc::Receiver<PairingError>) -> PairingError {
    loop {
        if let Ok(Some(error)) = tokio::time::timeout(OWNER_CHECK, met.recv()).await {
            return error;
        }
        if let Err(error @ PairingError::Foreign { .. }) = ops.pair(Pairing::Look).await {
            return error;
        }
    }
}

/// Connects and runs a worker until the shutdown. Not async, so that callers do not compile the SDK's futures again.
pub fn run_blocking(
    connection: &Connect,
    ports: Ports,
    options: &RunWorkerOptions,
    shutdown: CancellationToken,
) -> Result<(), WorkerError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| WorkerError::Start(error.to_string()))?;
    runtime.block_on(async {
        let client = connect(connection).await.map_err(|error| WorkerError::Start(error.to_string()))?;
        WorkerService::new(client, ports, options)?.run(shutdown).await
    })
}
