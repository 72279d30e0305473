//! What the tests stand on: a Temporal server, a store, a worker, scripted models and tools that can be watched.

pub(crate) mod a2a_peer;
pub(crate) mod agents;
pub(crate) mod both;
pub(crate) mod checks;
pub(crate) mod meter;
pub(crate) mod node;
pub(crate) mod process;
pub(crate) mod project;
pub(crate) mod receiver;
pub(crate) mod sdk_workers;
pub(crate) mod server;
pub(crate) mod terminal;
pub(crate) mod tools;
pub(crate) mod world;

pub(crate) use self::{agents::*, world::World};

/// A multi-threaded runtime per test: activities and workflows must really run at the same time.
pub(crate) fn block_on<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap().block_on(test)
}
