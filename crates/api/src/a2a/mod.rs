//! Agents as peers of the A2A protocol: a task is a run, a context is a session.
//!
//! `task`, `progress`, `message`, `answer` and `v03` are pure: what a run is as a task, what its log says as updates, what a
//! message starts or answers, and the older version of the protocol. `operation` has the operations, `jsonrpc`, `rest` and
//! `grpc` their bindings; `push` has the push configs, and `notify` writes the notifications. State is in the store and in
//! the run's workflow, and nowhere else.

mod answer;
mod card;
mod cards;
mod error;
mod grpc;
mod jsonrpc;
mod message;
mod notify;
mod operation;
mod progress;
mod push;
mod rest;
mod send;
mod sse;
mod stream;
mod task;
mod tasks;
mod tenant;
mod v03;
mod visit;

pub use self::notify::notifications;

use std::sync::Arc;

use axum::{
    Router,
    routing::{any, get, post},
};

use crate::app::App;

/// The routes below a workspace. They have no entry in the table of `guard`: what a request may do depends on its
/// operation, which is in the body.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/a2a/{agent}", post(jsonrpc::call))
        .route("/a2a/{agent}/v1/{*path}", any(rest::call))
        .route("/a2a/{agent}/.well-known/agent-card.json", get(cards::show))
}

/// The routes that are in no workspace: the card of a server with one agent, and gRPC, whose paths the protocol defines.
pub(crate) fn outside_workspaces() -> Router<Arc<App>> {
    Router::new().route(card::WELL_KNOWN, get(cards::only)).route(grpc::PATH, post(grpc::call))
}
