//! The HTTP API: the agent-runs protocol over HTTP and server-sent events, and requests for operators.
//!
//! [`spec`] and [`frames`] are pure: what a caller may send, and what a stream sends. The rest is
//! HTTP: `routes` (one file per group), `guard` (scope, rate and body limits of each route), `auth` (keys), `connections`
//! (sockets and their limits). The API makes no decisions about a run; the run's workflow does.

mod a2a;
mod access;
mod app;
pub mod auth;
mod body;
mod connections;
#[cfg(test)]
mod documented;
mod drain;
mod error;
pub mod frames;
mod guard;
mod log;
mod mcp;
pub mod models;
mod openapi;
mod query;
mod rate;
mod reader;
mod routes;
mod service;
pub mod spec;
mod tails;
mod unknown;

pub use self::{
    a2a::notifications,
    openapi::document_json,
    rate::Rates,
    service::{AddressCheck, Handle, Limits, Options, Service},
};
