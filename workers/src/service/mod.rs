//! The composition root: it opens the store, connects to Temporal or the embedded engine, loads the catalogues, and builds
//! the worker and the API server from them.
//!
//! `windlass dev`, `windlass serve`, `windlass worker`, the server inside a command, the benchmarks and the tests all
//! compose from here. Nothing here parses arguments or prints.
//!
//! - `catalogue`: the models, the tools and the agents of this process; `providers`: the models of the configured providers
//! - `store`: which store, and how it is opened; `secrets`: the keys of its secrets
//! - `embedded`: the engine and the store on one database
//! - `worker`: the worker; `api`: the API server
//! - `runtime`: a store, a connection and the catalogues together, with everything that `dev`, `serve` and `worker` share

pub mod agents;
pub mod api;
pub mod catalogue;
pub mod embedded;
pub(crate) mod providers;
mod runtime;
pub mod secrets;
pub mod store;
mod unknown_signals;
pub mod worker;

pub use self::{
    api::ApiOptions,
    catalogue::{CatalogueOptions, ModelCatalogue, Ports},
    embedded::{Embedded, EmbeddedError, EmbeddedHandle, EmbeddedOptions, RunningEmbedded, Tuning},
    runtime::Runtime,
    secrets::SecretKeys,
    store::{AnyStore, Missing, StoreLocation},
    worker::{Deployment, RunWorkerOptions, WorkerError, WorkerService, run_blocking},
};
