//! What a run does, end to end.

mod answers;
mod awaits;
mod basics;
mod children;
mod content;
mod client_tools;
mod continuing;
mod control;
mod definitions;
mod endings;
mod foreign;
mod limits;
mod recovery;
mod secrets;
mod sessions;
mod tools;
