//! Task queues: where tasks meet workers.
//!
//! A queue holds references only. What a task is, and whether it still is one, the run says when a worker takes it.
//! Queues are not kept on disk: after a restart they are filled again from the runs.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::{registry::RunKey, run::queries::PendingQuery, time::Nanos};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Workflow,
    Activity,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct QueueKey {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// Something for a worker to do.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    Workflow { run: RunKey, scheduled_id: i64 },
    Activity { run: RunKey, scheduled_id: i64, attempt: i32 },
    Query(Arc<PendingQuery>),
}

/// Who polled, and when last.
#[derive(Debug, Clone)]
pub(crate) struct Poller {
    pub(crate) identity: String,
    pub(crate) last_seen: Nanos,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    /// More tasks are on disk than fit here.
    spilled: bool,
    waiting: VecDeque<oneshot::Sender<Task>>,
    pollers: HashMap<String, Nanos>,
    last_poll: Nanos,
}

pub(crate) struct Queues {
    queues: Mutex<HashMap<QueueKey, Queue>>,
    limit: usize,
}

/// A poll that waits for a task. A task that arrives while it goes away is put back.
pub(crate) struct Waiting<'a> {
    queues: &'a Queues,
    key: QueueKey,
    task: oneshot::Receiver<Task>,
}

impl Queues {
    pub(crate) fn new(limit: usize) -> Self {
        Self { queues: Mutex::default(), limit }
    }

    /// Gives the task to a worker that waits, or keeps it until one comes.
    pub(crate) fn offer(&self, key: &QueueKey, mut task: Task) {
        let mut queues = self.lock();
        let queue = queues.entry(key.clone()).or_default();
        while let Some(poller) = queue.waiting.pop_front() {
            match poller.send(task) {
                Ok(()) => return,
                Err(back) => task = back,
            }
        }
        if queue.tasks.len() < self.limit || matches!(task, Task::Query(_)) {
            queue.tasks.push_back(task);
        } else {
            queue.spilled = true;
        }
    }

    /// A task at once, or a place in the line.
    pub(crate) fn poll(&self, key: &QueueKey, identity: &str, now: Nanos) -> Result<Task, Waiting<'_>> {
        let mut queues = self.lock();
        let queue = queues.entry(key.clone()).or_default();
        queue.pollers.insert(identity.to_owned(), now);
        queue.last_poll = now;
        if let Some(task) = queue.tasks.pop_front() {
            return Ok(task);
        }
        let (sender, task) = oneshot::channel();
        queue.waiting.retain(|poller| !poller.is_closed());
        queue.waiting.push_back(sender);
        Err(Waiting { queues: self, key: key.clone(), task })
    }

    /// Whether a worker polls this queue, or did a moment ago.
    pub(crate) fn is_polled(&self, key: &QueueKey, since: Nanos) -> bool {
        let mut queues = self.lock();
        queues.get_mut(key).is_some_and(|queue| {
            queue.waiting.retain(|poller| !poller.is_closed());
            !queue.waiting.is_empty() || queue.last_poll >= since
        })
    }

    /// The queue's worker has said that it stops. Its tasks are handed back.
    pub(crate) fn close(&self, key: &QueueKey) -> Vec<Task> {
        let Some(queue) = self.lock().remove(key) else { return Vec::new() };
        queue.tasks.into()
    }

    pub(crate) fn pollers(&self, key: &QueueKey, since: Nanos) -> Vec<Poller> {
        let mut queues = self.lock();
        let Some(queue) = queues.get_mut(key) else { return Vec::new() };
        queue.pollers.retain(|_, seen| *seen >= since);
        let pollers = queue.pollers.iter().map(|(identity, last_seen)| (identity.clone(), *last_seen));
        let mut pollers: Vec<_> = pollers.map(|(identity, last_seen)| Poller { identity, last_seen }).collect();
        pollers.sort_by(|a, b| a.identity.cmp(&b.identity));
        pollers
    }

    pub(crate) fn backlog(&self, key: &QueueKey) -> usize {
        self.lock().get(key).map_or(0, |queue| queue.tasks.len())
    }

    /// Whether tasks that did not fit have room now; asking clears the mark.
    pub(crate) fn take_spilled(&self, key: &QueueKey) -> bool {
        let mut queues = self.lock();
        let Some(queue) = queues.get_mut(key).filter(|queue| queue.tasks.is_empty()) else { return false };
        std::mem::take(&mut queue.spilled)
    }

    /// Forgets the tasks that are also on disk, not those who wait for them.
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
            self.queues.offer(&self.key, task);
        }
    }
}
