//! The deployments in memory, and the routing of each task queue that a version has.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{Deployment, QueueRouting};
use crate::queues::Kind;

/// Namespace, name and kind of a task queue.
type Queue = (String, String, Kind);

#[derive(Default)]
pub(crate) struct Deployments {
    known: RwLock<Known>,
    /// Whether there is any deployment. Without one, no task is looked up.
    any: AtomicBool,
    /// Serializes changes: each one starts from the result of the last.
    pub(crate) changes: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    /// By namespace and name.
    deployments: BTreeMap<(String, String), Deployment>,
    routing: HashMap<Queue, Arc<QueueRouting>>,
}

impl Deployments {
    pub(crate) fn new(stored: Vec<(String, Deployment)>) -> Self {
        let table = Self::default();
        for (namespace, deployment) in stored {
            table.put(&namespace, deployment);
        }
        table
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Deployment> {
        self.read().deployments.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// The deployments of a namespace by name.
    pub(crate) fn list(&self, namespace: &str) -> Vec<Deployment> {
        let known = self.read();
        known.deployments.iter().filter(|((of, _), _)| of == namespace).map(|(_, it)| it.clone()).collect()
    }

    pub(crate) fn count(&self, namespace: &str) -> usize {
        self.read().deployments.keys().filter(|(of, _)| of == namespace).count()
    }

    pub(crate) fn put(&self, namespace: &str, deployment: Deployment) {
        self.change(namespace, &deployment.name.clone(), Some(deployment));
    }

    pub(crate) fn remove(&self, namespace: &str, name: &str) {
        self.change(namespace, name, None);
    }

    fn change(&self, namespace: &str, name: &str, deployment: Option<Deployment>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), name.to_owned());
        let mut queues = deployment.as_ref().map(Deployment::queues).unwrap_or_default();
        let before = match deployment {
            Some(deployment) => known.deployments.insert(key, deployment),
            None => known.deployments.remove(&key),
        };
        queues.extend(before.as_ref().map(Deployment::queues).unwrap_or_default());
        for (queue, kind) in queues {
            let of_namespace =
                known.deployments.iter().filter(|((of, _), _)| of == namespace).map(|(_, deployment)| deployment);
            let routing = QueueRouting::of(of_namespace, &queue, kind);
            let place = (namespace.to_owned(), queue, kind);
            match routing {
                Some(routing) => known.routing.insert(place, Arc::new(routing)),
                None => known.routing.remove(&place),
            };
        }
        self.any.store(!known.deployments.is_empty(), Ordering::Release);
    }

    /// The routing of a task queue, if a version has it.
    pub(crate) fn routing(&self, namespace: &str, queue: &str, kind: Kind) -> Option<Arc<QueueRouting>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.read().routing.get(&(namespace.to_owned(), queue.to_owned(), kind)).cloned()
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}
