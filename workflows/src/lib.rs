//! The run workflow: short, deterministic, readable.
//!
//! Start reading at [`RunWorkflow`] in `run.rs`, then `drive.rs`, which is the loop. Every decision is a function of
//! `windlass_core::run`; this crate asks it, awaits the consequences and reports back. It performs no IO, reads no clock
//! but the workflow's, draws no random number and spawns nothing; `clippy.toml` enforces that.

pub mod attributes;
pub mod contract;
mod drive;
mod elsewhere;
mod execute;
mod in_flight;
mod patches;
mod push;
mod run;
pub mod signals;
pub mod wire;

pub use self::{push::PushWorkflow, run::RunWorkflow};
