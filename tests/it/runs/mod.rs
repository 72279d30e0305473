//! What a run does, end to end.

mod answers;
mod awaits;
mod basics;
mod children;
mod continuing;
mod control;
mod definitions;
mod limits;
mod recovery;
mod sessions;
mod tools;
