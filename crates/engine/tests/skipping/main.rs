//! An engine whose clock skips time, spoken to in the bare protocol.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking, in its helpers too")]

mod pending_work;
mod rig;
mod service;
mod timers;
