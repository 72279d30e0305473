//! What a run does, end to end.

mod answers;
mod approvals;
mod awaits;
mod basics;
mod children;
mod client_tools;
mod content;
mod continuing;
mod control;
mod definitions;
mod endings;
mod files;
mod foreign;
mod limits;
mod recovery;
pub(crate) mod secrets;
mod sessions;
mod tools;
