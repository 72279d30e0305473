//! Task queues: tasks that wait for workers, and polls that wait for tasks.
//!
//! A queue holds references only. When a worker takes a task, the run decides whether it is still valid. Queues are not
//! stored: after a restart they are filled from the runs.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use temporalio_protos::temporal::api::deployment::v1::WorkerDeploymentOptions;

use crate::{
    deployments::Version,
    registry::RunKey,
    run::{nexus::NexusKey, queries::PendingQuery},
    time::Nanos,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Workflow,
    Activity,
    Nexus,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct QueueKey {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The version of the workers that poll it. Tasks for workers without a version have a queue of their own.
    pub(crate) version: Option<Version>,
}

/// A task for a worker.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    Workflow { run: RunKey, scheduled_id: i64 },
    Activity { run: RunKey, scheduled_id: i64, attempt: i32, stamp: i32 },
    Nexus { run: RunKey, key: NexusKey },
    Query(Arc<PendingQuery>),
}

/// A poller and its last poll.
#[derive(Debug, Clone)]
pub(crate) struct Poller {
    pub(crate) identity: String,
    pub(crate) last_seen: Nanos,
    /// What the worker says of its deployment.
    pub(crate) options: Option<WorkerDeploymentOptions>,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    /// There are tasks on disk that did not fit here.
    spilled: bool,
    waiting: VecDeque<oneshot::Sender<Task>>,
    pollers: HashMap<String, (Nanos, Option<WorkerDeploymentOptions>)>,
    last_poll: Nanos,
    /// When the last task came; only of queues of a version.
    last_task: Nanos,
}

impl Queue {
    /// Gives a task to a waiting poll, if there is one.
    fn give(&mut self, mut task: Task) -> Result<(), Task> {
        while let Some(poller) = self.waiting.pop_front() {
            match poller.send(task) {
                Ok(()) => return Ok(()),
                Err(back) => task = back,
            }
        }
        Err(task)
    }

    fn enqueue(&mut self, task: Task, limit: usize) -> Result<(), Task> {
        let Err(task) = self.give(task) else { return Ok(()) };
        if self.tasks.len() >= limit && !matches!(task, Task::Query(_)) {
            return Err(task);
        }
        self.tasks.push_back(task);
        Ok(())
    }
}

pub(crate) struct Queues {
    queues: Mutex<HashMap<QueueKey, Queue>>,
    limit: usize,
}

/// A poll that waits for a task. If it is dropped, a task that arrived meanwhile is put back.
pub(crate) struct Waiting<'a> {
    queues: &'a Queues,
    key: QueueKey,
    task: oneshot::Receiver<Task>,
}

impl Queues {
    pub(crate) fn new(limit: usize) -> Self {
        Self { queues: Mutex::default(), limit }
    }

    /// Gives the task to a waiting poll or queues it. If the queue is full, the task is returned, and the caller offers
    /// it again with [`offer_stored`](Self::offer_stored) after it is on disk.
    pub(crate) fn offer(&self, key: &QueueKey, task: Task) -> Result<(), Task> {
        self.lock().entry(key.clone()).or_default().enqueue(task, self.limit)
    }

    /// As [`offer`](Self::offer), for a task that is on disk: if the queue is full, the task is read from disk later.
    pub(crate) fn offer_stored(&self, key: &QueueKey, task: Task) {
        let mut queues = self.lock();
        let queue = queues.entry(key.clone()).or_default();
        queue.spilled |= queue.enqueue(task, self.limit).is_err();
    }

    /// As [`offer`](Self::offer), for a task that exists only in memory: it is queued even if the queue is full. There
    /// is at most one for each waiting caller.
    pub(crate) fn offer_unstored(&self, key: &QueueKey, task: Task) {
        let mut queues = self.lock();
        let queue = queues.entry(key.clone()).or_default();
        if let Err(task) = queue.give(task) {
            queue.tasks.push_back(task);
        }
    }

    /// Puts a task back whose poll was dropped.
    fn put_back(&self, key: &QueueKey, task: Task) {
        let mut queues = self.lock();
        let queue = queues.entry(key.clone()).or_default();
        if let Err(task) = queue.give(task) {
            queue.tasks.push_front(task);
        }
    }

    /// Returns a task, or a poll that waits for one.
    pub(crate) fn poll(
        &self,
        key: &QueueKey,
        identity: &str,
        options: Option<&WorkerDeploymentOptions>,
        now: Nanos,
    ) -> Result<Task, Waiting<'_>> {
        let mut queues = self.lock();
        let queue = queues.entry(key.clone()).or_default();
        queue.pollers.insert(identity.to_owned(), (now, options.cloned()));
        queue.last_poll = now;
        if let Some(task) = queue.tasks.pop_front() {
            return Ok(task);
        }
        let (sender, task) = oneshot::channel();
        queue.waiting.retain(|poller| !poller.is_closed());
        queue.waiting.push_back(sender);
        Err(Waiting { queues: self, key: key.clone(), task })
    }

    /// Whether a poll is waiting, or was received since the given time.
    pub(crate) fn is_polled(&self, key: &QueueKey, since: Nanos) -> bool {
        let mut queues = self.lock();
        queues.get_mut(key).is_some_and(|queue| {
            queue.waiting.retain(|poller| !poller.is_closed());
            !queue.waiting.is_empty() || queue.last_poll >= since
        })
    }

    /// The queue's worker has shut down. Returns the queued tasks.
    pub(crate) fn close(&self, key: &QueueKey) -> Vec<Task> {
        let Some(queue) = self.lock().remove(key) else { return Vec::new() };
        queue.tasks.into()
    }

    pub(crate) fn pollers(&self, key: &QueueKey, since: Nanos) -> Vec<Poller> {
        let mut queues = self.lock();
        let Some(queue) = queues.get_mut(key) else { return Vec::new() };
        queue.pollers.retain(|_, (seen, _)| *seen >= since);
        let pollers = queue.pollers.iter().map(|(identity, (last_seen, options))| Poller {
            identity: identity.clone(),
            last_seen: *last_seen,
            options: options.clone(),
        });
        let mut pollers: Vec<_> = pollers.collect();
        pollers.sort_by(|a, b| a.identity.cmp(&b.identity));
        pollers
    }

    /// Notes that a task for a version came.
    pub(crate) fn note_task(&self, key: &QueueKey, now: Nanos) {
        self.lock().entry(key.clone()).or_default().last_task = now;
    }

    /// Whether tasks wait, or one came since the given time.
    pub(crate) fn is_busy(&self, key: &QueueKey, since: Nanos) -> bool {
        self.lock().get(key).is_some_and(|queue| !queue.tasks.is_empty() || queue.last_task >= since)
    }

    /// The task queue's versions that have been polled or have tasks.
    pub(crate) fn versions(&self, key: &QueueKey) -> Vec<Option<Version>> {
        let same =
            |other: &&QueueKey| (&other.namespace, &other.name, other.kind) == (&key.namespace, &key.name, key.kind);
        self.lock().keys().filter(same).map(|key| key.version.clone()).collect()
    }

    /// Takes all waiting tasks of a task queue, of every version. Polls go on waiting.
    pub(crate) fn take_all(&self, key: &QueueKey) -> Vec<Task> {
        let mut queues = self.lock();
        let same = queues
            .iter_mut()
            .filter(|(other, _)| (&other.namespace, &other.name, other.kind) == (&key.namespace, &key.name, key.kind));
        same.flat_map(|(_, queue)| std::mem::take(&mut queue.tasks)).collect()
    }

    pub(crate) fn backlog(&self, key: &QueueKey) -> usize {
        self.lock().get(key).map_or(0, |queue| queue.tasks.len())
    }

    /// Whether tasks that did not fit can be loaded now. Resets the mark.
    pub(crate) fn take_spilled(&self, key: &QueueKey) -> bool {
        let mut queues = self.lock();
        let Some(queue) = queues.get_mut(key).filter(|queue| queue.tasks.is_empty()) else { return false };
        std::mem::take(&mut queue.spilled)
    }

    /// Removes the tasks that are also on disk. Waiting polls stay.
    pub(crate) fn clear(&self) {
        for queue in self.lock().values_mut() {
            queue.tasks.retain(|task| matches!(task, Task::Query(_)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<QueueKey, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting<'_> {
    pub(crate) async fn task(&mut self) -> Option<Task> {
        (&mut self.task).await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.task.close();
        if let Ok(task) = self.task.try_recv() {
            self.queues.put_back(&self.key, task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> QueueKey {
        QueueKey { namespace: "n".into(), name: "q".to_owned(), kind: Kind::Workflow, version: None }
    }

    fn task(scheduled_id: i64) -> Task {
        Task::Workflow { run: RunKey::new("n", "w", "r"), scheduled_id }
    }

    fn number(task: &Task) -> i64 {
        match task {
            Task::Workflow { scheduled_id, .. } => *scheduled_id,
            other => panic!("{other:?}"),
        }
    }

    /// The tasks a worker gets without waiting.
    fn drain(queues: &Queues) -> Vec<i64> {
        std::iter::from_fn(|| queues.poll(&key(), "w", None, 0).ok().map(|task| number(&task))).collect()
    }

    #[test]
    fn a_full_queue_spills_only_tasks_that_are_stored() {
        let queues = Queues::new(2);
        queues.offer(&key(), task(1)).unwrap();
        queues.offer(&key(), task(2)).unwrap();
        let back = queues.offer(&key(), task(3)).unwrap_err();
        assert_eq!(drain(&queues), [1, 2]);
        assert!(!queues.take_spilled(&key()), "the task is not on disk yet");

        // The task is on disk now, and the queue has room.
        queues.offer_stored(&key(), back);
        queues.offer_stored(&key(), task(4));
        queues.offer_stored(&key(), task(5));
        assert!(!queues.take_spilled(&key()), "there is enough to do without the disk");
        assert_eq!(drain(&queues), [3, 4]);
        assert_eq!([(); 2].map(|()| queues.take_spilled(&key())), [true, false]);
    }

    #[test]
    fn tasks_that_are_not_stored_are_queued_even_when_the_queue_is_full() {
        let queues = Queues::new(1);
        queues.offer(&key(), task(1)).unwrap();
        queues.offer_unstored(&key(), task(2));
        assert_eq!(drain(&queues), [1, 2]);
        assert!(!queues.take_spilled(&key()));
    }

    #[test]
    fn a_task_of_a_poller_that_left_returns_to_the_front_of_a_full_queue() {
        let queues = Queues::new(1);
        let Err(waiting) = queues.poll(&key(), "w", None, 0) else { panic!("there is nothing to take") };
        queues.offer(&key(), task(1)).unwrap();
        queues.offer(&key(), task(2)).unwrap();
        drop(waiting);
        assert_eq!(drain(&queues), [1, 2]);
    }
}
