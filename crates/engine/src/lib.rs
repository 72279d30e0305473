//! A Temporal-compatible service inside the binary: the same protocol, the same histories, durable on one SQLite file.
//!
//! [`Handle::call`] is the one way in, whether a request comes from this process or over TCP (`grpc`). `service` speaks
//! the protocol, `core` takes a run and lets something happen to it, and `run` holds the rules of a single workflow
//! execution as pure state. Everything else moves what was decided: to disk (`persist`), to workers (`queues`), to the
//! moment it is due (`wakeups`) and to other runs (`post`).

mod call;
mod clock;
mod core;
mod delivery;
mod engine;
pub mod grpc;
mod limits;
mod lock;
mod namespaces;
mod notifications;
mod open_queries;
mod persist;
mod queues;
mod registry;
mod run;
mod service;
mod service_error;
mod time;
mod token;
mod visibility;
mod wakeups;

pub use self::{
    call::{Answer, Call},
    clock::{Clock, NotLocked, SkippingClock, SystemClock},
    engine::{Engine, EngineError, Handle, NamespaceOptions, Options},
    limits::Limits,
    lock::DirectoryLock,
    persist::{SCHEMA, examine},
    service_error::ServiceError,
};
