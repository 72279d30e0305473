//! The integration tests: runs on a real Temporal server, with a real store. One binary, a folder per concern.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking, in its helpers too")]

mod api;
mod bench;
mod cli;
mod client;
mod diff;
mod engine;
mod engine_time;
mod hostile;
mod models;
mod newcomer;
mod nexus;
mod peers;
mod proofs;
mod replay;
mod retention;
mod runs;
mod sdk;
mod soak;
mod stock_cli;
mod support;
mod tools;
