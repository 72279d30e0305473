//! The API over real sockets, in front of a real worker and store. What real clients make of it is tested with them.

mod a2a;
mod approvals;
mod authority;
mod closed_externally;
mod cluster;
mod crowd;
mod definitions;
mod doors;
pub(crate) mod http;
mod local_tools;
mod mcp;
mod operating;
pub(crate) mod rig;
mod runs;
mod sessions;
mod starts;
mod streams;
mod strictness;
