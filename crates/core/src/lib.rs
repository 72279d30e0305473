//! The pure domain of Windlass: what a run is and every decision it takes.
//!
//! Nothing here performs IO, reads a clock, draws a random number or spawns. A workflow calls these functions and
//! executes their decisions; tests call them without Temporal.

pub mod admission;
pub mod agent;
pub mod approval;
pub mod awaits;
pub mod body;
pub mod canonical;
pub mod clock;
pub mod closed_externally;
pub mod context;
pub mod cost;
pub mod envelope;
pub mod event;
pub mod failure;
pub mod file;
pub mod guard;
pub mod heartbeat;
pub mod ids;
pub mod limits;
pub mod message;
pub mod policy;
pub mod row;
pub mod run;
pub mod run_usage;
pub mod schema;
pub mod secret;
pub mod stop;
pub mod time;
