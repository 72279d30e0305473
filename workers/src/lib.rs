//! The one binary and composition root: it knows every crate and wires them together.
//!
//! The library half exists so that the awaiting of SDK futures is compiled once, and so that tests can run a worker in
//! process.

pub mod bench;
pub mod cli;
pub mod dev;
pub mod failure;
mod output;
pub mod render;
pub mod service;
pub mod temporal;
