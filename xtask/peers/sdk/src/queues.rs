//! Task queues: tasks wait for a poll, or a poll waits for a task.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Semaphore, time::timeout};

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Queues of one kind by their names.
pub(crate) struct Queues<T>(Mutex<HashMap<String, Arc<Queue<T>>>>);

struct Queue<T> {
    tasks: Mutex<VecDeque<T>>,
    /// A permit for every task.
    ready: Semaphore,
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Queues<T> {
    fn named(&self, name: &str) -> Arc<Queue<T>> {
        let mut queues = held(&self.0);
        if let Some(queue) = queues.get(name) {
            return Arc::clone(queue);
        }
        let queue = Arc::new(Queue { tasks: Mutex::default(), ready: Semaphore::new(0) });
        queues.insert(name.to_owned(), Arc::clone(&queue));
        queue
    }

    pub(crate) fn offer(&self, name: &str, task: T) {
        let queue = self.named(name);
        held(&queue.tasks).push_back(task);
        queue.ready.add_permits(1);
    }

    /// The next task of the queue, or none if there was none for so long.
    pub(crate) async fn take(&self, name: &str, patience: Duration) -> Option<T> {
        let queue = self.named(name);
        timeout(patience, queue.ready.acquire()).await.ok()?.ok()?.forget();
        held(&queue.tasks).pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn tasks_are_taken_in_their_order_and_by_queue() {
        let queues = Queues::default();
        for (name, task) in [("a", 1), ("b", 2), ("a", 3)] {
            queues.offer(name, task);
        }
        let taken = [queues.take("a", LONG).await, queues.take("a", LONG).await, queues.take("b", LONG).await];
        assert_eq!(taken, [Some(1), Some(3), Some(2)]);
        assert_eq!(queues.take("a", Duration::ZERO).await, None);
    }

    #[tokio::test]
    async fn a_poll_waits_for_a_task() {
        let queues = Arc::new(Queues::default());
        let polls: Vec<_> = (0..2)
            .map(|_| {
                let queues = Arc::clone(&queues);
                tokio::spawn(async move { queues.take("a", LONG).await })
            })
            .collect();
        tokio::task::yield_now().await;
        queues.offer("a", 1);
        queues.offer("a", 2);
        let mut taken = Vec::new();
        for poll in polls {
            taken.push(poll.await.unwrap());
        }
        taken.sort();
        assert_eq!(taken, [Some(1), Some(2)]);
    }
}
