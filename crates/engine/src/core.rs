//! Loads a run, applies an operation to it, and commits the result.
//!
//! An operation holds the lock of the workflow id, changes the run in memory and queues one write. Workflow tasks are
//! dispatched before the write is durable, because they can be dispatched again. Replies to clients wait for the write
//! (`applied`). `commit` turns the changes of an operation into that write.

mod applied;
mod commit;
mod placing;

use std::sync::{
    Arc, RwLock,
    atomic::{AtomicI64, Ordering},
};

use temporalio_protos::temporal::api::{
    common::v1::SearchAttributes,
    history::v1::{
        ActivityTaskScheduledEventAttributes, HistoryEvent, WorkflowExecutionStartedEventAttributes,
        history_event::Attributes,
    },
};
use tokio::sync::{Notify, mpsc};
use windlass_sqlite::{Ack, Database, DatabaseError};

pub(crate) use self::applied::{Acknowledgement, Applied, forgotten, unavailable};
pub(crate) use self::placing::TaskQueue;
use crate::{
    archive,
    clock::{Clock, SkippingClock},
    deployments::{Deployments, Version},
    limits::Limits,
    namespaces::Namespaces,
    nexus::Endpoints,
    notifications::Notifications,
    open_queries::OpenQueries,
    persist::{self, Found},
    queues::Queues,
    registry::{Registry, RunKey, Workflow},
    run::{Env, Run},
    schedules::Schedules,
    service_error::ServiceError,
    time::Nanos,
    wakeups::Wakeups,
};

pub(crate) struct Core {
    pub(crate) database: Database,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) archive: archive::Directory,
    pub(crate) namespaces: RwLock<Namespaces>,
    /// Serializes changes of namespaces: each one starts from the result of the last.
    pub(crate) namespace_changes: tokio::sync::Mutex<()>,
    pub(crate) nexus_endpoints: RwLock<Endpoints>,
    /// Serializes changes of Nexus endpoints, as `namespace_changes`.
    pub(crate) nexus_changes: tokio::sync::Mutex<()>,
    pub(crate) deployments: Deployments,
    pub(crate) registry: Registry,
    pub(crate) queues: Queues,
    pub(crate) wakeups: Wakeups<RunKey>,
    pub(crate) schedules: Schedules,
    pub(crate) notifications: Notifications,
    pub(crate) open_queries: OpenQueries,
    /// Memory was dropped after a failed commit; the runs must be read from disk.
    pub(crate) forgotten: Notify,
    /// There are runs to remove before the next sweep.
    pub(crate) sweep_now: Notify,
    /// Runs with outbox messages to deliver.
    pub(crate) deliveries: mpsc::UnboundedSender<RunKey>,
    /// A batch was started.
    pub(crate) batch_started: Notify,
    next_number: AtomicI64,
    /// Identifies this engine process among all that have opened the database.
    incarnation: u64,
    awake_since: Nanos,
}

/// The run that a request names. Without a run id, the current one.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) namespace: String,
    pub(crate) workflow_id: String,
    pub(crate) run_id: String,
}

impl Core {
    pub(crate) fn new(
        database: Database,
        clock: Arc<dyn Clock>,
        limits: Limits,
        archive: archive::Directory,
        deliveries: mpsc::UnboundedSender<RunKey>,
    ) -> Result<Arc<Self>, DatabaseError> {
        persist::migrate(&database)?;
        let highest = database.read_blocking(|sql| Ok::<_, DatabaseError>(persist::highest_number(sql)?))?;
        let deployments = database.read_blocking(|sql| Ok::<_, DatabaseError>(persist::deployments(sql)?))?;
        let core = Arc::new(Self {
            deployments: Deployments::new(deployments),
            namespaces: RwLock::new(Namespaces::load(&database)?),
            namespace_changes: tokio::sync::Mutex::default(),
            nexus_endpoints: RwLock::new(Endpoints::load(&database)?),
            nexus_changes: tokio::sync::Mutex::default(),
            registry: Registry::new(limits.cached_runs),
            queues: Queues::new(limits.queued_tasks),
            wakeups: Wakeups::default(),
            schedules: Schedules::default(),
            notifications: Notifications::default(),
            open_queries: OpenQueries::default(),
            forgotten: Notify::new(),
            batch_started: Notify::new(),
            sweep_now: Notify::new(),
            archive,
            next_number: AtomicI64::new(highest + 1),
            incarnation: uuid::Uuid::new_v4().as_u64_pair().0,
            awake_since: clock.now(),
            database,
            clock,
            limits,
            deliveries,
        });
        let memory = Arc::downgrade(&core);
        core.database.on_failed_commit(move || {
            if let Some(core) = memory.upgrade() {
                core.forget();
            }
        });
        Ok(core)
    }

    pub(crate) fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// The incarnation to store with a task: that of this process for local workers, zero for remote ones.
    pub(crate) fn incarnation_for(&self, local: bool) -> u64 {
        if local { self.incarnation } else { 0 }
    }

    /// Processes what is due for a run, and times out tasks of local workers of earlier processes.
    pub(crate) fn wake(&self, run: &mut Run, env: &Env<'_>) {
        run.memory.wakeup_set = 0;
        let number = run.number;
        run.time_out_orphans(env, self.incarnation);
        run.fire_due(env, &mut || self.beginning(number));
        if !run.state.is_running() {
            run.release_queries();
        }
    }

    pub(crate) fn new_number(&self) -> i64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// A commit failed: drops everything in memory, because it may be ahead of the disk.
    fn forget(&self) {
        self.registry.forget();
        self.queues.clear();
        self.notifications.forget_updates();
        self.forgotten.notify_one();
    }

    /// Fills queues, wake-ups and deliveries from disk, after a start and after a failed commit.
    pub(crate) fn recover(self: &Arc<Self>) -> Result<(), DatabaseError> {
        let wakeups = self.database.read_blocking(|sql| Ok::<_, DatabaseError>(persist::wakeups(sql)?))?;
        let clock = self.clock.skipping();
        let _hold = clock.map(SkippingClock::hold);
        clock.inspect(|clock| clock.forget_runs());
        for (at, [namespace, workflow_id, run_id]) in wakeups {
            let target = Target { namespace, workflow_id, run_id };
            self.wakeups.set(at, target.key());
            if clock.is_some() {
                // Applying an operation that does nothing reports the run to the clock.
                self.with_run(&target, |_, _| Ok(())).map(Applied::value).ok();
            }
        }
        self.recover_schedules()?;
        self.dispatch_ready_runs()
    }

    /// Dispatches the tasks and outbox messages of all runs on disk that have some.
    pub(crate) fn dispatch_ready_runs(self: &Arc<Self>) -> Result<(), DatabaseError> {
        const PAGE: usize = 1000;
        let mut after = 0;
        loop {
            let page =
                self.database.read_blocking(|sql| Ok::<_, DatabaseError>(persist::ready_runs(sql, after, PAGE)?))?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = *last;
            for (number, ids) in page {
                let Some([namespace, workflow_id, run_id]) = ids else {
                    tracing::warn!(number, "the ids of a run cannot be read; the run is not processed");
                    continue;
                };
                let target = Target { namespace, workflow_id, run_id };
                let look = |run: &mut Run, env: &Env<'_>| Ok((self.waiting_in(run, env), run.next_message().is_some()));
                match self.with_run(&target, look) {
                    Ok(done) => {
                        let (waiting, has_messages) = done.value();
                        let key = target.key();
                        waiting.into_iter().for_each(|(queue, task)| self.queues.offer_stored(&queue, task));
                        if has_messages {
                            self.deliveries.send(key).ok();
                        }
                    }
                    // The run is loaded again when a request needs it.
                    Err(error) => {
                        tracing::warn!(%error, workflow_id = target.workflow_id, "a run could not be loaded; it is loaded when a request needs it");
                    }
                }
            }
        }
    }

    /// Applies an operation to a run. An operation that returns an error must leave the run unchanged.
    pub(crate) fn with_run<T>(
        self: &Arc<Self>,
        target: &Target,
        act: impl FnOnce(&mut Run, &Env<'_>) -> Result<T, ServiceError>,
    ) -> Result<Applied<T>, ServiceError> {
        self.with_run_acked(target, Ack::Durable, act)
    }

    /// As [`with_run`](Self::with_run), with a chosen acknowledgement.
    pub(crate) fn with_run_acked<T>(
        self: &Arc<Self>,
        target: &Target,
        ack: Ack,
        act: impl FnOnce(&mut Run, &Env<'_>) -> Result<T, ServiceError>,
    ) -> Result<Applied<T>, ServiceError> {
        self.with_workflow(&target.namespace, &target.workflow_id, |workflow, epoch| {
            let run = self.run_in(workflow, target)?;
            let acted = self.in_env(&target.namespace, |env| act(run, env));
            let value = acted.inspect_err(|_| run.drop_transient_state())?;
            let run_id = run.state.run_id.clone();
            let kept = self.commit(workflow, &run_id, epoch, ack);
            Ok(Applied::new(value, kept))
        })
    }

    pub(crate) fn with_workflow<T>(
        &self,
        namespace: &str,
        workflow_id: &str,
        act: impl FnOnce(&mut Workflow, u64) -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        if self.database.queued() >= self.limits.waiting_writes {
            return Err(ServiceError::Unavailable("too many writes are queued; try again".to_owned()));
        }
        let _hold = self.clock.skipping().map(SkippingClock::hold);
        self.registry.with(namespace, workflow_id, act)
    }

    /// Builds the environment of an operation.
    pub(crate) fn in_env<T>(&self, namespace: &str, act: impl FnOnce(&Env<'_>) -> T) -> T {
        let check = |attributes: &mut SearchAttributes| self.read_namespaces().check(namespace, attributes);
        let has_queue = |queue: &str, version: &Version| self.has_queue(namespace, queue, version);
        let env = Env {
            has_queue: &has_queue,
            now: self.now(),
            limits: &self.limits,
            new_id: &|| uuid::Uuid::new_v4().to_string(),
            chance: &chance,
            namespace_id: &|name| self.read_namespaces().id(name),
            check_attributes: &check,
            nexus_endpoint: &|id, name| self.read_endpoints().find(id, name),
        };
        act(&env)
    }

    pub(crate) fn read_namespaces(&self) -> std::sync::RwLockReadGuard<'_, Namespaces> {
        self.namespaces.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The named run, from memory or from disk.
    pub(crate) fn run_in<'w>(&self, workflow: &'w mut Workflow, target: &Target) -> Result<&'w mut Run, ServiceError> {
        let run_id = match target.run_id.as_str() {
            "" => match self.current_in(workflow, &target.namespace, &target.workflow_id)? {
                Some((_, run_id)) => run_id,
                None => {
                    return Err(ServiceError::not_found(format!("workflow not found for ID: {}", target.workflow_id)));
                }
            },
            run_id => run_id.to_owned(),
        };
        if !workflow.runs.contains_key(&run_id) {
            let found =
                self.read_committed(|sql| persist::find_run(sql, &target.namespace, &target.workflow_id, &run_id))?;
            let Some(Found { number, state }) = found else {
                return Err(ServiceError::not_found(format!(
                    "workflow execution not found for workflow ID \"{}\" and run ID \"{run_id}\"",
                    target.workflow_id
                )));
            };
            let mut run = Run::loaded(number, state);
            run.memory.remembers_from = self.awake_since;
            workflow.runs.insert(run_id.clone(), run);
        }
        workflow
            .runs
            .get_mut(&run_id)
            .ok_or_else(|| ServiceError::Internal("the loaded run is not in memory".to_owned()))
    }

    /// Number and id of the current run.
    pub(crate) fn current_in(
        &self,
        workflow: &mut Workflow,
        namespace: &str,
        workflow_id: &str,
    ) -> Result<Option<(i64, String)>, ServiceError> {
        if let Some(known) = &workflow.current {
            return Ok(known.clone());
        }
        let current = self.read_committed(|sql| persist::current_run(sql, namespace, workflow_id))?;
        workflow.current = Some(current.clone());
        Ok(current)
    }

    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ServiceError> {
        self.database.read_blocking(|sql| Ok::<_, DatabaseError>(work(sql)?)).map_err(|error| unavailable(&error))
    }

    /// Reads a run that is not in memory. A run is evicted only after its writes are committed, so no commit is needed
    /// first.
    fn read_committed<T>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ServiceError> {
        self.database
            .read_committed_blocking(|sql| Ok::<_, DatabaseError>(work(sql)?))
            .map_err(|error| unavailable(&error))
    }

    /// A run's first event, for retries of the run.
    pub(crate) fn beginning(&self, run: i64) -> Option<WorkflowExecutionStartedEventAttributes> {
        match self.event(run, 1).ok()??.attributes {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => Some(started),
            _ => None,
        }
    }

    /// The scheduled event of an activity. Without it, the activity cannot be dispatched.
    pub(crate) fn scheduled(
        &self,
        run: i64,
        scheduled_id: i64,
    ) -> Result<ActivityTaskScheduledEventAttributes, ServiceError> {
        match self.event(run, scheduled_id)?.and_then(|event| event.attributes) {
            Some(Attributes::ActivityTaskScheduledEventAttributes(scheduled)) => Ok(scheduled),
            _ => Err(ServiceError::Unavailable("the activity's event cannot be read; try again".to_owned())),
        }
    }

    pub(crate) fn event(&self, run: i64, id: i64) -> Result<Option<HistoryEvent>, ServiceError> {
        self.read(|sql| persist::event(sql, run, id))
    }
}

/// Taken from the random bits of a UUID. An even distribution is not required.
fn chance(below: i64) -> i64 {
    let random = uuid::Uuid::new_v4().as_u128() & 0xffff_ffff_ffff;
    i64::try_from(random).unwrap_or_default() % below.max(1)
}

impl Target {
    pub(crate) fn new(namespace: &str, workflow_id: &str, run_id: &str) -> Self {
        Self { namespace: namespace.to_owned(), workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() }
    }

    pub(crate) fn key(&self) -> RunKey {
        RunKey::new(&self.namespace, &self.workflow_id, &self.run_id)
    }

    pub(crate) fn of(key: &RunKey) -> Self {
        Self::new(&key.namespace, &key.workflow_id, &key.run_id)
    }
}
