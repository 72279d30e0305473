//! The front door: the agent-runs protocol over HTTP and server-sent events, and the verbs of an operator beside it.
//!
//! [`spec`] and [`frames`] are pure: what a caller may send, and what a stream sends back. The rest carries them over
//! HTTP. Nothing about a run is decided here; a run's workflow decides, the store remembers.

pub mod frames;
pub mod models;
pub mod spec;
