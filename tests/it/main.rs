//! The integration tests: runs on a real Temporal server, with a real store. One binary, a folder per concern.

mod cli;
mod proofs;
mod replay;
mod runs;
mod stock_cli;
mod support;
