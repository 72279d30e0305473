//! The requests of the protocol, one module for each group. They check the request, apply an operation through the
//! core, and build the response.

pub(crate) mod activities;
mod activity_executions;
mod activity_operations;
mod archive;
mod batch_operations;
mod batches;
mod checks;
mod control;
mod decisions;
mod deployments;
mod describe;
mod health;
mod history;
mod info;
mod lists;
mod namespaces;
pub(crate) mod nexus;
mod queries;
mod queues;
mod reset;
mod router;
mod schedules;
pub(crate) mod start;
mod tasks;
mod test_service;
mod update_with_start;
mod updates;

pub(crate) use self::{archive::Swept, batch_operations::run_batches};
