//! The protocol's requests, one module for each family of them. They check what comes in, let the core do it, and put
//! the answer into the protocol's words.

pub(crate) mod activities;
mod checks;
mod control;
mod decisions;
mod describe;
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
