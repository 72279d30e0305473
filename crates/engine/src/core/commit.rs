//! The end of an operation: its changes become one write, tasks for workers, and notifications for long polls.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use prost::Message as _;
use windlass_sqlite::{Ack, DatabaseError, Ticket, pack};

use super::{Acknowledgement, Applied, Core};
use crate::{
    notifications::Position,
    persist::{HistoryRow, RunWrite},
    queues::{QueueKey, Task},
    registry::{RunKey, Workflow},
    run::{Changes, Dispatch, Env, Run, updates::UpdateChange},
    schedules::ScheduleKey,
};

impl Core {
    /// Adds a new run, which becomes the current one.
    pub(crate) fn insert(self: &Arc<Self>, workflow: &mut Workflow, run: Run, epoch: u64) -> Applied<()> {
        let run_id = run.state.run_id.clone();
        workflow.runs.insert(run_id.clone(), run);
        Applied::new((), self.commit_new(workflow, &run_id, epoch))
    }

    /// Ends an operation: queues the run's changes for writing and dispatches its tasks.
    pub(crate) fn commit(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        run_id: &str,
        epoch: u64,
        ack: Ack,
    ) -> Acknowledgement {
        self.commit_step(workflow, run_id, epoch, ack, false)
    }

    fn commit_new(self: &Arc<Self>, workflow: &mut Workflow, run_id: &str, epoch: u64) -> Acknowledgement {
        self.commit_step(workflow, run_id, epoch, Ack::Durable, true)
    }

    fn commit_step(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        run_id: &str,
        epoch: u64,
        ack: Ack,
        new: bool,
    ) -> Acknowledgement {
        let Some(run) = workflow.runs.get_mut(run_id) else { return Acknowledgement::Already };
        let namespace = run.state.namespace.clone();
        let mut changes = self.in_env(&namespace, |env| run.settle(env));
        let deferred = changes.deferrable;
        let ack = if changes.relaxed { Ack::Relaxed } else { ack };
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
            Some(ticket) => Acknowledgement::By(ticket),
            None if deferred => Acknowledgement::Already,
            None if under_way => Acknowledgement::WithOthers { core: Arc::clone(self), epoch },
            None => Acknowledgement::Already,
        }
    }

    /// Ends an operation that changed several runs and created one. All changes are in one write.
    pub(crate) fn commit_with_new(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        changed: &[String],
        new: Run,
        epoch: u64,
    ) -> Applied<()> {
        let mut steps = Vec::new();
        for run_id in changed {
            let Some(run) = workflow.runs.get_mut(run_id) else { continue };
            let changes = self.in_env(&new.state.namespace, |env| run.settle(env));
            steps.push(self.step(run, changes, false));
        }
        steps.push(self.first_step(workflow, new));
        let kept = self.write(steps, epoch, Ack::Durable).map_or(Acknowledgement::Already, Acknowledgement::By);
        Applied::new((), kept)
    }

    /// The first step of a new run, which becomes the current one.
    fn first_step(self: &Arc<Self>, workflow: &mut Workflow, mut run: Run) -> Step {
        let changes = self.in_env(&run.state.namespace.clone(), |env| run.settle(env));
        let step = self.step(&mut run, changes, true);
        workflow.current = Some(Some((run.number, run.state.run_id.clone())));
        workflow.runs.insert(run.state.run_id.clone(), run);
        step
    }

    /// Turns a run's changes into a write and dispatches its tasks.
    fn step(self: &Arc<Self>, run: &mut Run, mut changes: Changes, new: bool) -> Step {
        let key = RunKey::new(&run.state.namespace, &run.state.workflow_id, &run.state.run_id);
        let wakeup = run.next_wakeup();
        if let Some(at) = wakeup.filter(|at| run.memory.wakeup_set == 0 || *at < run.memory.wakeup_set) {
            run.memory.wakeup_set = at;
            self.wakeups.set(at, key.clone());
        }
        let mut overflow = Vec::new();
        for dispatch in std::mem::take(&mut changes.dispatches) {
            let Some((queue, task)) = self.addressed(run, &key, dispatch) else { continue };
            if run.speculates() && matches!(task, Task::Workflow { .. }) {
                self.queues.offer_unstored(&queue, task);
            } else if let Err(task) = self.queues.offer(&queue, task) {
                overflow.push((queue, task));
            }
        }
        let ended_for = run.ended_for_schedule().map(|schedule| ScheduleKey::new(&run.state.namespace, schedule));
        if let Some(clock) = self.clock.skipping() {
            if let Some(schedule) = &ended_for {
                clock.set_schedule_at_work(schedule);
            }
            clock.set_run(&key, run);
        }
        let listing = changes.listing.then(|| self.listing(run));
        let new_batches = changes.inherited.into_iter().chain([changes.events]).filter(|batch| !batch.is_empty());
        let new_batches: Vec<_> = new_batches.collect();
        run.memory.tail.extend(new_batches.iter().flatten().cloned());
        run.trim_tail();
        run.memory.unwritten.extend(new_batches);
        // What another operation deferred is written with the next one that is not deferred, even if that only reads.
        run.memory.deferred |= changes.dirty;
        let write = run.memory.deferred && !changes.deferrable;
        run.memory.deferred &= !write;
        let write = write.then(|| RunWrite {
            number: run.number,
            namespace: run.state.namespace.clone(),
            workflow_id: run.state.workflow_id.clone(),
            run_id: run.state.run_id.clone(),
            new,
            state: pack::pack(pack::Kind::History, run.encode()),
            // Workers of this process end with it, so after a restart such a run must be processed at once.
            next_due: if run.has_local_tasks() { Some(0) } else { wakeup },
            ready: run.is_ready(),
            closed: !run.state.is_running(),
            history: HistoryRow::of(&std::mem::take(&mut run.memory.unwritten)),
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
            overflow,
            has_messages: !run.state.outbox.is_empty(),
            ended_for,
            key,
        }
    }

    fn write(self: &Arc<Self>, steps: Vec<Step>, epoch: u64, ack: Ack) -> Option<Ticket<bool, DatabaseError>> {
        if steps.iter().all(|step| step.write.is_none()) {
            // Nothing to write: the notifications can be sent now.
            steps.iter().for_each(|step| step.tell(self));
            return None;
        }
        let (core, steps) = (Arc::clone(self), Arc::new(steps));
        let executed = Cell::new(false);
        Some(self.database.apply_at_once(ack, move |tx| {
            // A write that is replayed was acknowledged before, so it is executed whatever the epoch is.
            if core.registry.epoch() != epoch && !executed.get() {
                return Ok(false);
            }
            for step in steps.iter() {
                if let Some(write) = &step.write {
                    write.apply(tx)?;
                }
            }
            let (core, steps) = (Arc::clone(&core), Arc::clone(&steps));
            tx.after_sync(move || steps.iter().for_each(|step| step.tell(&core)));
            executed.set(true);
            Ok(true)
        }))
    }
}

/// One run's part of a write.
struct Step {
    key: RunKey,
    write: Option<RunWrite>,
    unsynced: Arc<AtomicUsize>,
    position: Position,
    updates: Vec<UpdateChange>,
    /// Tasks that did not fit into their queues.
    overflow: Vec<(QueueKey, Task)>,
    has_messages: bool,
    /// The schedule that started the run, once the run is closed.
    ended_for: Option<ScheduleKey>,
}

impl Step {
    /// Sends the notifications, after the write is durable.
    fn tell(&self, core: &Core) {
        if self.write.is_some() {
            self.unsynced.fetch_sub(1, Ordering::AcqRel);
            core.notifications.history_reached(&self.key.run_id, self.position);
        }
        for change in &self.updates {
            core.notifications.update_reached(&self.key.run_id, &change.update_id, change.progress.clone());
        }
        for (queue, task) in &self.overflow {
            core.queues.offer_stored(queue, task.clone());
        }
        if let Some(schedule) = &self.ended_for {
            core.schedules.wake(schedule.clone());
        }
        if self.has_messages {
            // Without a receiver, the messages are sent after the next start.
            core.deliveries.send(self.key.clone()).ok();
        }
    }
}

impl Run {
    fn waiting(&self) -> Vec<Dispatch> {
        if !self.state.is_running() {
            return Vec::new();
        }
        self.waiting_task().into_iter().chain(self.waiting_activities()).collect()
    }

    /// Everything to dispatch after a restart.
    pub(super) fn waiting_for_workers(&self, env: &Env<'_>) -> Vec<Dispatch> {
        let mut waiting = self.waiting();
        waiting.extend(self.waiting_nexus(env));
        waiting
    }

    fn is_ready(&self) -> bool {
        !self.state.outbox.is_empty() || !self.waiting().is_empty() || self.waiting_nexus_requests().next().is_some()
    }

    /// The encoded state. A speculative task is not stored.
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
            // A run may stay in this state for weeks.
            self.memory.tail.shrink_to_fit();
        }
    }
}
