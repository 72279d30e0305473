//! The requests of the protocol, one module for each group. They check the request, apply an operation through the
//! core, and build the response.

pub(crate) mod activities;
mod checks;
mod control;
mod decisions;
mod describe;
mod health;
mod history;
mod info;
mod lists;
mod namespaces;
mod queries;
mod queues;
mod reset;
mod router;
pub(crate) mod start;
mod tasks;
mod test_service;
mod update_with_start;
mod updates;
