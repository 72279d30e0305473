//! What the programs of the peers have in common: the work of a run, and the orders of `cargo xtask bench --peers`.
//!
//! The work is that of `windlass bench`: a run has T turns, each one plan and K parallel calls whose results have about
//! 1 KB of JSON, and a closing plan ends it. The system under test makes every step durable before the next one is acted
//! upon, and the run keeps the whole conversation.

mod beats;
mod orders;
mod work;

pub use beats::{Probe, Step};
pub use orders::{Peer, serve};
pub use work::{Call, Work, plan, result};

pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type Result<T> = std::result::Result<T, Error>;
