//! Worker deployments: which versions of the workers there are, and which version runs which task.
//!
//! `state` is what is stored of a deployment, `register`, `change` and `delete` are the operations on it, `drainage`
//! decides when a version has drained, `routing` decides where a task goes, and `describe` is a deployment as clients see
//! it. All of these are pure. `table` keeps the deployments in memory.

mod change;
mod delete;
mod describe;
mod drainage;
mod farm;
pub(crate) mod names;
mod register;
mod routing;
pub(crate) mod state;
mod table;
#[cfg(test)]
mod tests;
mod version;

pub(crate) use self::{
    change::{Set, SetCurrent, SetRamping, Target},
    describe::{deployment_info, metadata, summary, task_queues, version_info},
    drainage::Drainage,
    register::{BY_A_POLL, MOST_DEPLOYMENTS, exhausted},
    routing::{Directive, Place, QueueRouting, Routing, place},
    state::Deployment,
    table::Deployments,
    version::{Version, dotted},
};
