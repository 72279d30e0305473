//! The API over real sockets, in front of a real worker and store. What real clients make of it is tested with them.

mod cluster;
mod crowd;
mod doors;
mod http;
mod local_tools;
mod operating;
mod overruled;
pub(crate) mod rig;
mod runs;
mod sessions;
mod streams;
