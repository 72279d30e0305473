//! The `windlass` binary. `service` composes all crates; `cli` parses and prints.
//!
//! It is also a library, so that SDK futures are compiled once and tests can run a worker in process.

pub mod bench;
pub mod cli;
pub mod dev;
pub mod failure;
mod output;
pub mod render;
pub mod service;
pub mod temporal;
