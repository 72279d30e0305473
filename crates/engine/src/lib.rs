//! A Temporal-compatible service inside the binary: the same protocol, the same histories, durable on one SQLite file.
//!
//! [`Handle::call`] is the only entry point, for requests of this process and over TCP (`grpc`). `service` implements
//! the protocol, `core` applies operations to runs, and `run` is a single workflow execution as pure state. The other
//! modules store the results (`persist`), dispatch tasks to workers (`queues`), wake runs when they are due (`wakeups`)
//! and deliver messages to other runs (`delivery`), and take the turns of schedules (`schedules`).

mod archive;
mod batch;
mod call;
mod clock;
mod core;
mod delivery;
mod deployments;
mod dynamic_config;
mod engine;
pub mod grpc;
mod limits;
mod lock;
mod namespaces;
mod nexus;
mod notifications;
mod open_queries;
mod persist;
mod queues;
mod registry;
mod run;
mod schedule;
mod schedules;
mod service;
mod service_error;
mod time;
mod token;
mod visibility;
mod wakeups;
mod zone;

pub use self::{
    call::{Answer, Call},
    clock::{Clock, NotLocked, SkippingClock, SystemClock},
    dynamic_config::ConfigError,
    engine::{Engine, EngineError, Handle, NamespaceOptions, Options},
    limits::Limits,
    lock::DirectoryLock,
    persist::{SCHEMA, examine},
    service_error::ServiceError,
};
