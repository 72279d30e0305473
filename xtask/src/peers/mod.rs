//! `cargo xtask bench --peers`: Windlass and other systems for durable execution, measured in turn on the same machine with
//! the same work. `docs/performance.md` has the figures.
//!
//! A peer is its server, or Postgres, or neither, and a small program of `xtask/peers` that executes the work and takes orders.
//! Rounds are interleaved: every system is measured once before any is measured again.

mod disk;
mod install;
mod options;
mod postgres;
mod processes;
mod program;
mod restate;
mod rounds;
mod session;
mod stats;
mod syncs;
mod system;
mod table;
mod windlass;

pub(crate) use self::rounds::run;
