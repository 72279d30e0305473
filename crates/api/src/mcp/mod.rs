//! The agents of this server as tools of the Model Context Protocol, over streamable HTTP.
//!
//! Two revisions share one endpoint: 2026-07-28, in which every request stands alone, and 2025-11-25 with its handshake
//! (`era.rs` tells them apart). A call of a tool starts a run exactly as `POST /agent-runs` does (`call.rs`) and follows
//! its log (`follow.rs`). A run that waits for a person asks through the client (`elicit.rs`). Tasks are runs
//! (`tasks.rs`).
//!
//! No server keeps anything about a client in memory: what a later request needs is in the store, or in texts that the
//! client sends back and that only this store's servers can make (`state.rs`).

mod answering;
mod call;
mod content;
mod elicit;
mod endpoint;
mod era;
mod follow;
mod legacy;
mod listen;
mod message;
mod outcome;
mod reply;
mod state;
mod tasks;
mod tools;

pub(crate) use self::{
    endpoint::{post, post_in_workspace},
    state::StateKey,
};
