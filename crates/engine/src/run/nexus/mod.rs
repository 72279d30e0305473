//! Nexus operations of a run: it calls operations of services whose workers poll other task queues.
//!
//! - `state`: what is stored of an operation, and when something is due for it.
//! - `requests`: requests to start and to cancel operations: their attempts, time limits and retries.
//! - `answers`: what workers reply, and what becomes of it.
//! - `ends`: the events that end operations, and completions of asynchronous ones.
//! - `failure`: failures as they pass between handler and caller.
//! - `links`: links between handler and caller as URLs.
//! - `rebuild`: the state from history.
//!
//! A request is stored as part of the operation's state, so it needs no message of its own: after a restart, it is
//! dispatched again, as an activity is. Endpoints belong to the server; a run asks for them by [`Env`](super::Env).

mod answers;
mod ends;
mod failure;
mod links;
mod rebuild;
mod requests;
mod state;
#[cfg(test)]
mod tests;

pub(super) use self::state::NexusDue;
pub(crate) use self::{
    answers::{Answer, task_not_found},
    ends::{Completion, Outcome},
    links::{WORKFLOW_EVENT, event_url},
    requests::{NexusKey, NexusRequest},
    state::{Cancellation, NexusOperation, Request},
};

/// An endpoint as a run needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) id: String,
    pub(crate) target: EndpointTarget,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EndpointTarget {
    /// Workers that poll this task queue.
    Worker { namespace: String, task_queue: String },
    /// An HTTP server, which the engine does not call.
    External,
}
