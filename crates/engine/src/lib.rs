//! A Temporal-compatible service inside the binary: the same protocol, the same histories, durable on one SQLite file.
//!
//! `call` is the one way in, whether a request comes from this process or over TCP. Behind it, `run` holds the rules of
//! a single workflow execution as pure state, and everything else moves what it decides: to disk, to pollers, to timers
//! and to other runs.

mod call;
mod limits;
mod refusal;
mod run;
mod time;

pub use self::{
    call::{Answer, Call},
    limits::Limits,
    refusal::Refusal,
};
