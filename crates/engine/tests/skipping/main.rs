//! An engine with time skipping, called through the plain protocol.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking, in its helpers too")]

mod pending_work;
mod rig;
mod schedules;
mod service;
mod timers;
