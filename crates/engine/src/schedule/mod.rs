//! Schedules as pure state: which times a spec has, and what a schedule does at them.
//!
//! This module uses no clock and no disk. `spec`, `cron`, `ranges` and `duration` read specs, `times` and `calendar`
//! compute their times, `fingerprint` is the jitter's hash. `machine` is a schedule, `overlap` its policies, `state`
//! what is stored of it, `shown` what replies show. The requests are in `service::schedules`.
//!
//! Rules, limits and error texts are those of the real server's scheduler, a workflow that is built into it.

mod calendar;
mod cron;
pub(crate) mod duration;
mod fingerprint;
mod machine;
mod overlap;
mod ranges;
mod shown;
mod spec;
mod state;
#[cfg(test)]
mod tests;
mod times;

pub(crate) use self::{
    machine::{Change, Decision, Ended, Machine},
    shown::{described, listed},
    spec::check_durations,
    state::{DecidedStart, ScheduleState},
    times::Times,
};
