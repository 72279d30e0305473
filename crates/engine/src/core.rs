//! The engine's heart: takes a run, lets something happen to it, and sees to it that the world follows.
//!
//! An operation holds the workflow id's lock, changes the run in memory and queues one write. What the operation decided
//! goes out at once where that is harmless (a workflow task can be handed out again); whoever must not hear of it before
//! it is kept waits for the write.

use std::sync::{
    Arc, RwLock,
    atomic::{AtomicI64, Ordering},
};

use prost::Message as _;
use temporalio_protos::temporal::api::{
    common::v1::SearchAttributes,
    history::v1::{
        ActivityTaskScheduledEventAttributes, HistoryEvent, WorkflowExecutionStartedEventAttributes,
        history_event::Attributes,
    },
};
use tokio::sync::{Notify, mpsc};
use windlass_sqlite::{Ack, Database, DatabaseError, Ticket};

use crate::{
    alarms::Alarms,
    clock::{Clock, SkippingClock},
    limits::Limits,
    namespaces::Namespaces,
    news::{News, Position},
    open_queries::OpenQueries,
    persist::{self, Batch, Found, RunWrite},
    queues::{Kind, QueueKey, Queues, Task},
    refusal::Refusal,
    registry::{Registry, RunKey, Workflow},
    run::{Changes, Dispatch, Env, Run},
    time::{Nanos, SECOND},
};

/// A worker that has not polled for this long is taken to be gone.
const STICKY_PATIENCE: Nanos = 10 * SECOND;

pub(crate) struct Core {
    pub(crate) database: Database,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) namespaces: RwLock<Namespaces>,
    pub(crate) registry: Registry,
    pub(crate) queues: Queues,
    pub(crate) alarms: Alarms,
    pub(crate) news: News,
    pub(crate) open_queries: OpenQueries,
    /// Memory was forgotten, and what is on disk must be taken up.
    pub(crate) forgotten: Notify,
    /// Runs that have letters to send.
    pub(crate) post: mpsc::UnboundedSender<RunKey>,
    next_number: AtomicI64,
    /// Tells this engine from those that had the database before.
    incarnation: u64,
    awake_since: Nanos,
}

/// Which run somebody means. Without a run id, the current one.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) namespace: String,
    pub(crate) workflow_id: String,
    pub(crate) run_id: String,
}

/// What came of an operation, and what it takes to keep it.
#[must_use]
pub(crate) struct Done<T> {
    pub(crate) value: T,
    kept: Kept,
}

/// When what an operation says can be relied upon.
pub(crate) enum Kept {
    Already,
    /// With this write.
    By(Ticket<bool, DatabaseError>),
    /// Nothing changed, but what was found is still being written: whoever repeats a request must not be told that it
    /// is done before it is.
    WithOthers {
        core: Arc<Core>,
        epoch: u64,
    },
}

impl<T> Done<T> {
    pub(crate) fn new(value: T, kept: Kept) -> Self {
        Self { value, kept }
    }

    pub(crate) fn map<U>(self, map: impl FnOnce(T) -> U) -> Done<U> {
        Done { value: map(self.value), kept: self.kept }
    }

    /// Waits until what came of it is kept.
    pub(crate) async fn kept(self) -> Result<T, Refusal> {
        let ticket = match self.kept {
            Kept::Already => return Ok(self.value),
            Kept::By(ticket) => ticket,
            Kept::WithOthers { core, epoch } => {
                let database = core.database.clone();
                database.apply(Ack::Durable, move |_| Ok(core.registry.epoch() == epoch))
            }
        };
        match ticket.await {
            Ok(true) => Ok(self.value),
            Ok(false) => Err(forgotten()),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// Does not wait. The write is carried out all the same.
    pub(crate) fn value(self) -> T {
        self.value
    }
}

impl Core {
    pub(crate) fn new(
        database: Database,
        clock: Arc<dyn Clock>,
        limits: Limits,
        post: mpsc::UnboundedSender<RunKey>,
    ) -> Result<Arc<Self>, DatabaseError> {
        persist::migrate(&database)?;
        let highest = database.read_blocking(|sql| Ok::<_, DatabaseError>(persist::highest_number(sql)?))?;
        let core = Arc::new(Self {
            namespaces: RwLock::new(Namespaces::load(&database)?),
            registry: Registry::new(limits.cached_runs),
            queues: Queues::new(limits.queued_tasks),
            alarms: Alarms::default(),
            news: News::default(),
            open_queries: OpenQueries::default(),
            forgotten: Notify::new(),
            next_number: AtomicI64::new(highest + 1),
            incarnation: uuid::Uuid::new_v4().as_u64_pair().0,
            awake_since: clock.now(),
            database,
            clock,
            limits,
            post,
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

    /// What tasks remember of who has them: only of workers in this process, which cannot outlive the engine.
    pub(crate) fn lent_to(&self, local: bool) -> u64 {
        if local { self.incarnation } else { 0 }
    }

    /// Does what is due for a run, and takes back what it had lent to workers of earlier processes.
    pub(crate) fn ring(&self, run: &mut Run, env: &Env<'_>) {
        run.memory.alarm_set = 0;
        let number = run.number;
        run.give_up_orphans(env, self.incarnation);
        run.ring(env, &mut || self.beginning(number));
        if !run.state.is_running() {
            run.release_queries();
        }
    }

    pub(crate) fn new_number(&self) -> i64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// A write was lost, and with it what memory held beyond the disk.
    fn forget(&self) {
        self.registry.forget();
        self.queues.clear();
        self.news.forget_updates();
        self.forgotten.notify_one();
    }

    /// Fills queues, alarms and the outbox from disk: after a start, and after memory was forgotten.
    pub(crate) fn recover(self: &Arc<Self>) -> Result<(), DatabaseError> {
        let alarms = self.database.read_blocking(|sql| Ok::<_, DatabaseError>(persist::alarms(sql)?))?;
        let clock = self.clock.skipping();
        let _hold = clock.map(SkippingClock::hold);
        clock.inspect(|clock| clock.forget_runs());
        for (at, [namespace, workflow_id, run_id]) in alarms {
            let target = Target { namespace, workflow_id, run_id };
            self.alarms.set(at, target.key());
            if clock.is_some() {
                // Whatever happens to a run, such a clock is told how the run stands; nothing at all will do.
                self.with_run(&target, |_, _| Ok(())).map(Done::value).ok();
            }
        }
        self.hand_out_ready_runs()
    }

    /// Looks through the runs on disk that have something to hand out or to send.
    pub(crate) fn hand_out_ready_runs(self: &Arc<Self>) -> Result<(), DatabaseError> {
        const PAGE: usize = 1000;
        let mut after = 0;
        loop {
            let page =
                self.database.read_blocking(|sql| Ok::<_, DatabaseError>(persist::ready_runs(sql, after, PAGE)?))?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = *last;
            for (_, [namespace, workflow_id, run_id]) in page {
                let target = Target { namespace, workflow_id, run_id };
                // A run that cannot be read now is found again when somebody asks for it.
                if let Ok(done) = self.with_run(&target, |run, _| Ok((run.waiting(), run.next_letter().is_some()))) {
                    let (waiting, letters) = done.value();
                    let key = target.key();
                    waiting.into_iter().for_each(|dispatch| self.hand_out(&key, dispatch));
                    if letters {
                        self.post.send(key).ok();
                    }
                }
            }
        }
    }

    /// Lets something happen to a run. If the operation refuses, it must have left the run as it was.
    pub(crate) fn with_run<T>(
        self: &Arc<Self>,
        target: &Target,
        act: impl FnOnce(&mut Run, &Env<'_>) -> Result<T, Refusal>,
    ) -> Result<Done<T>, Refusal> {
        self.with_run_acked(target, Ack::Durable, act)
    }

    /// As [`with_run`](Self::with_run), for what need not be on disk before anything else happens.
    pub(crate) fn with_run_acked<T>(
        self: &Arc<Self>,
        target: &Target,
        ack: Ack,
        act: impl FnOnce(&mut Run, &Env<'_>) -> Result<T, Refusal>,
    ) -> Result<Done<T>, Refusal> {
        self.with_workflow(&target.namespace, &target.workflow_id, |workflow, epoch| {
            let run = self.run_in(workflow, target)?;
            let value = self.in_env(&target.namespace, |env| act(run, env))?;
            let run_id = run.state.run_id.clone();
            let kept = self.keep(workflow, &run_id, epoch, ack);
            Ok(Done::new(value, kept))
        })
    }

    pub(crate) fn with_workflow<T>(
        &self,
        namespace: &str,
        workflow_id: &str,
        act: impl FnOnce(&mut Workflow, u64) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        if self.database.queued() >= self.limits.waiting_writes {
            return Err(Refusal::Unavailable("too many writes wait already; try again".to_owned()));
        }
        let _hold = self.clock.skipping().map(SkippingClock::hold);
        self.registry.with(namespace, workflow_id, act)
    }

    /// Builds what an operation may ask of its surroundings.
    pub(crate) fn in_env<T>(&self, namespace: &str, act: impl FnOnce(&Env<'_>) -> T) -> T {
        let check = |attributes: &mut SearchAttributes| self.read_namespaces().check(namespace, attributes);
        let env = Env {
            now: self.now(),
            limits: &self.limits,
            new_id: &|| uuid::Uuid::new_v4().to_string(),
            namespace_id: &|name| self.read_namespaces().id(name),
            check_attributes: &check,
        };
        act(&env)
    }

    pub(crate) fn read_namespaces(&self) -> std::sync::RwLockReadGuard<'_, Namespaces> {
        self.namespaces.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The run that is meant, from memory or from disk.
    pub(crate) fn run_in<'w>(&self, workflow: &'w mut Workflow, target: &Target) -> Result<&'w mut Run, Refusal> {
        let run_id = match target.run_id.as_str() {
            "" => match self.current_in(workflow, &target.namespace, &target.workflow_id)? {
                Some((_, run_id)) => run_id,
                None => return Err(Refusal::not_found(format!("workflow not found for ID: {}", target.workflow_id))),
            },
            run_id => run_id.to_owned(),
        };
        if !workflow.runs.contains_key(&run_id) {
            let found = self.read(|sql| persist::find_run(sql, &target.namespace, &target.workflow_id, &run_id))?;
            let Some(Found { number, state }) = found else {
                return Err(Refusal::not_found(format!(
                    "workflow execution not found for workflow ID \"{}\" and run ID \"{run_id}\"",
                    target.workflow_id
                )));
            };
            let mut run = Run::loaded(number, state);
            run.memory.remembers_from = self.awake_since;
            workflow.runs.insert(run_id.clone(), run);
        }
        workflow.runs.get_mut(&run_id).ok_or_else(|| Refusal::Internal("a run vanished".to_owned()))
    }

    /// Number and id of the current run.
    pub(crate) fn current_in(
        &self,
        workflow: &mut Workflow,
        namespace: &str,
        workflow_id: &str,
    ) -> Result<Option<(i64, String)>, Refusal> {
        if let Some(known) = &workflow.current {
            return Ok(known.clone());
        }
        let current = self.read(|sql| persist::current_run(sql, namespace, workflow_id))?;
        workflow.current = Some(current.clone());
        Ok(current)
    }

    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Refusal> {
        self.database.read_blocking(|sql| Ok::<_, DatabaseError>(work(sql)?)).map_err(|error| unavailable(&error))
    }

    /// A run's first event, for a run that is to be tried again.
    pub(crate) fn beginning(&self, run: i64) -> Option<WorkflowExecutionStartedEventAttributes> {
        match self.event(run, 1).ok()??.attributes {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => Some(started),
            _ => None,
        }
    }

    /// What an activity was scheduled with. Without it, nobody could be given the activity.
    pub(crate) fn scheduled(
        &self,
        run: i64,
        scheduled_id: i64,
    ) -> Result<ActivityTaskScheduledEventAttributes, Refusal> {
        match self.event(run, scheduled_id)?.and_then(|event| event.attributes) {
            Some(Attributes::ActivityTaskScheduledEventAttributes(scheduled)) => Ok(scheduled),
            _ => Err(Refusal::Unavailable("the activity's event cannot be read; try again".to_owned())),
        }
    }

    fn event(&self, run: i64, id: i64) -> Result<Option<HistoryEvent>, Refusal> {
        self.read(|sql| persist::event(sql, run, id))
    }

    /// Adds a new run, which becomes the current one.
    pub(crate) fn insert(self: &Arc<Self>, workflow: &mut Workflow, run: Run, epoch: u64) -> Done<()> {
        let run_id = run.state.run_id.clone();
        workflow.runs.insert(run_id.clone(), run);
        Done::new((), self.keep_new(workflow, &run_id, epoch))
    }

    /// Ends an operation: what the run decided is queued for writing and handed out.
    pub(crate) fn keep(self: &Arc<Self>, workflow: &mut Workflow, run_id: &str, epoch: u64, ack: Ack) -> Kept {
        self.keep_step(workflow, run_id, epoch, ack, false)
    }

    fn keep_new(self: &Arc<Self>, workflow: &mut Workflow, run_id: &str, epoch: u64) -> Kept {
        self.keep_step(workflow, run_id, epoch, Ack::Durable, true)
    }

    fn keep_step(self: &Arc<Self>, workflow: &mut Workflow, run_id: &str, epoch: u64, ack: Ack, new: bool) -> Kept {
        let Some(run) = workflow.runs.get_mut(run_id) else { return Kept::Already };
        let namespace = run.state.namespace.clone();
        let mut changes = self.in_env(&namespace, |env| run.settle(env));
        let successor = changes.successor.take();
        let mut steps = vec![self.step(run, changes, new)];
        if new {
            workflow.current = Some(Some((run.number, run.state.run_id.clone())));
        }
        if let Some(mut next) = successor {
            next.number = self.new_number();
            steps.push(self.first_step(workflow, *next));
        }
        let under_way = steps.iter().any(|step| step.unsynced.load(Ordering::Acquire) > 0);
        match self.write(steps, epoch, ack) {
            Some(ticket) => Kept::By(ticket),
            None if under_way => Kept::WithOthers { core: Arc::clone(self), epoch },
            None => Kept::Already,
        }
    }

    /// Ends an operation that changed several runs and made a new one: all of it is kept, or nothing.
    pub(crate) fn keep_with_new(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        changed: &[String],
        new: Run,
        epoch: u64,
    ) -> Done<()> {
        let mut steps = Vec::new();
        for run_id in changed {
            let Some(run) = workflow.runs.get_mut(run_id) else { continue };
            let changes = self.in_env(&new.state.namespace, |env| run.settle(env));
            steps.push(self.step(run, changes, false));
        }
        steps.push(self.first_step(workflow, new));
        let kept = self.write(steps, epoch, Ack::Durable).map_or(Kept::Already, Kept::By);
        Done { value: (), kept }
    }

    /// A new run becomes the current one.
    fn first_step(self: &Arc<Self>, workflow: &mut Workflow, mut run: Run) -> Step {
        let changes = self.in_env(&run.state.namespace.clone(), |env| run.settle(env));
        let step = self.step(&mut run, changes, true);
        workflow.current = Some(Some((run.number, run.state.run_id.clone())));
        workflow.runs.insert(run.state.run_id.clone(), run);
        step
    }

    /// Turns what a run has decided into a write, and hands out its tasks.
    fn step(self: &Arc<Self>, run: &mut Run, mut changes: Changes, new: bool) -> Step {
        let key = RunKey::new(&run.state.namespace, &run.state.workflow_id, &run.state.run_id);
        let alarm = run.alarm();
        if let Some(at) = alarm.filter(|at| run.memory.alarm_set == 0 || *at < run.memory.alarm_set) {
            run.memory.alarm_set = at;
            self.alarms.set(at, key.clone());
        }
        let mut left_to_disk = Vec::new();
        for dispatch in std::mem::take(&mut changes.dispatches) {
            let Some((queue, task)) = self.addressed(run, &key, dispatch) else { continue };
            if let Err(task) = self.queues.offer(&queue, task) {
                left_to_disk.push((queue, task));
            }
        }
        if let Some(clock) = self.clock.skipping() {
            clock.stand(&key, run);
        }
        let listing = changes.listing.then(|| self.listing(run));
        let mut batches = Vec::new();
        for events in changes.inherited.into_iter().chain([changes.events]) {
            let (batch, events) = Batch::of(events);
            batches.extend(batch);
            run.memory.tail.extend(events);
        }
        run.trim_tail();
        let write = changes.dirty.then(|| RunWrite {
            number: run.number,
            namespace: run.state.namespace.clone(),
            workflow_id: run.state.workflow_id.clone(),
            run_id: run.state.run_id.clone(),
            new,
            state: run.encode(),
            // Whoever finds this on disk when the process has ended looks at once.
            next_due: if run.has_lent() { Some(0) } else { alarm },
            ready: run.has_something_ready(),
            batches,
            listing,
        });
        if write.is_some() {
            run.memory.unsynced.fetch_add(1, Ordering::AcqRel);
        }
        Step {
            write,
            unsynced: Arc::clone(&run.memory.unsynced),
            position: Position { next_event_id: run.state.next_event_id, closed: !run.state.is_running() },
            updates: changes.updates,
            left_to_disk,
            letters: !run.state.outbox.is_empty(),
            key,
        }
    }

    fn write(self: &Arc<Self>, steps: Vec<Step>, epoch: u64, ack: Ack) -> Option<Ticket<bool, DatabaseError>> {
        if steps.iter().all(|step| step.write.is_none()) {
            // Nothing to keep: what there is to say can be said now.
            steps.into_iter().for_each(|step| step.tell(self));
            return None;
        }
        let core = Arc::clone(self);
        Some(self.database.apply(ack, move |tx| {
            if core.registry.epoch() != epoch {
                return Ok(false);
            }
            for step in &steps {
                if let Some(write) = &step.write {
                    write.apply(tx)?;
                }
            }
            tx.after_sync(move || steps.into_iter().for_each(|step| step.tell(&core)));
            Ok(true)
        }))
    }

    /// The task that a run wants handed out, and where.
    fn addressed(self: &Arc<Self>, run: &mut Run, key: &RunKey, dispatch: Dispatch) -> Option<(QueueKey, Task)> {
        if let Dispatch::Workflow { queue, sticky: true, .. } = &dispatch {
            let sticky = self.queue(key, queue.clone(), Kind::Workflow);
            if !self.queues.is_polled(&sticky, self.now() - STICKY_PATIENCE) {
                // Its worker is gone; any other may have the task.
                return run.unstick().map(|dispatch| self.task(key, dispatch));
            }
        }
        Some(self.task(key, dispatch))
    }

    /// Hands out a task that is on disk.
    pub(crate) fn hand_out(&self, key: &RunKey, dispatch: Dispatch) {
        let (queue, task) = self.task(key, dispatch);
        self.queues.offer_kept(&queue, task);
    }

    fn task(&self, key: &RunKey, dispatch: Dispatch) -> (QueueKey, Task) {
        let run = key.clone();
        match dispatch {
            Dispatch::Workflow { queue, scheduled_id, .. } => {
                (self.queue(key, queue, Kind::Workflow), Task::Workflow { run, scheduled_id })
            }
            Dispatch::Activity { queue, scheduled_id, attempt } => {
                (self.queue(key, queue, Kind::Activity), Task::Activity { run, scheduled_id, attempt })
            }
        }
    }

    fn queue(&self, run: &RunKey, name: String, kind: Kind) -> QueueKey {
        QueueKey { namespace: Arc::clone(&run.namespace), name, kind }
    }
}

/// One run's part of a write.
struct Step {
    key: RunKey,
    write: Option<RunWrite>,
    unsynced: Arc<std::sync::atomic::AtomicUsize>,
    position: Position,
    updates: Vec<crate::run::updates::UpdateNews>,
    /// Tasks for which their queues had no room.
    left_to_disk: Vec<(QueueKey, Task)>,
    letters: bool,
}

impl Step {
    /// Tells those who wait, now that it is kept.
    fn tell(self, core: &Core) {
        if self.write.is_some() {
            self.unsynced.fetch_sub(1, Ordering::AcqRel);
            core.news.history_reached(&self.key.run_id, self.position);
        }
        for news in self.updates {
            core.news.update_reached(&self.key.run_id, &news.update_id, news.progress);
        }
        for (queue, task) in self.left_to_disk {
            core.queues.offer_kept(&queue, task);
        }
        if self.letters {
            // Without anybody to send them, they are sent after the next start.
            core.post.send(self.key).ok();
        }
    }
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

impl Run {
    fn waiting(&self) -> Vec<Dispatch> {
        if !self.state.is_running() {
            return Vec::new();
        }
        self.waiting_task().into_iter().chain(self.waiting_activities()).collect()
    }

    fn has_something_ready(&self) -> bool {
        !self.state.outbox.is_empty() || !self.waiting().is_empty()
    }

    /// The state as it is kept: a speculative task is not.
    fn encode(&mut self) -> Vec<u8> {
        let speculative = self.state.task.take_if(|task| task.speculative);
        let encoded = self.state.encode_to_vec();
        if speculative.is_some() {
            self.state.task = speculative;
        }
        encoded
    }

    fn trim_tail(&mut self) {
        let from = self.state.previous_started_id;
        if self.memory.tail.first().is_some_and(|event| event.event_id <= from) {
            self.memory.tail.retain(|event| event.event_id > from);
        }
    }
}

pub(crate) fn unavailable(error: &DatabaseError) -> Refusal {
    Refusal::Unavailable(format!("the engine's database refused: {error}"))
}

pub(crate) fn forgotten() -> Refusal {
    Refusal::Unavailable("an earlier write of this run was lost; try again".to_owned())
}
