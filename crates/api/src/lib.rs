//! The front door: the agent-runs protocol over HTTP and server-sent events, and the verbs of an operator beside it.
//!
//! [`spec`] and [`frames`] are pure: what a caller may send, and what a stream sends back. The rest carries them over
//! HTTP: `routes` (one file per family), `guard` (who may enter, how often, with how much), `auth` (keys), `connections`
//! (sockets and their limits). Nothing about a run is decided here; a run's workflow decides, the store remembers.

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
pub mod models;
mod openapi;
mod query;
mod rate;
mod routes;
mod service;
pub mod spec;
mod tails;
mod unknown;

pub use self::{
    openapi::document_json,
    rate::Rates,
    service::{Handle, Limits, Options, Service},
};
