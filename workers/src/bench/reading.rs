//! What is measured: one reading is one line of JSON or one row of a table.

use serde::Serialize;

/// A result. Its fields are a promise to whoever parses them; new ones may come.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "metric", rename_all = "snake_case")]
pub(super) enum Reading {
    Latency(Latency),
    Throughput(Throughput),
    Signal(Signal),
    Parked(Parked),
    Growth(Growth),
    Recovery(Recovery),
}

/// How long one step after another takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Latency {
    /// Whether clients came through the API instead of straight to Temporal.
    pub(super) through_api: bool,
    pub(super) runs: u32,
    pub(super) turns: u32,
    pub(super) calls: u32,
    pub(super) steps: u64,
    pub(super) ms_per_step_p50: f64,
    pub(super) ms_per_step_p99: f64,
    /// Of the whole run as its client sees it, start and end included.
    pub(super) ms_per_step_mean: f64,
    pub(super) run_ms_p50: f64,
}

/// How much is done when many runs are under way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Throughput {
    /// Whether clients came through the API instead of straight to Temporal.
    pub(super) through_api: bool,
    pub(super) runs: u32,
    pub(super) turns: u32,
    pub(super) calls: u32,
    pub(super) steps: u64,
    pub(super) wall_s: f64,
    pub(super) steps_per_s: f64,
    pub(super) runs_per_s: f64,
    pub(super) cpu_ms_per_step: Option<f64>,
    pub(super) server_cpu_ms_per_step: Option<f64>,
    pub(super) disk_bytes_per_step: f64,
    pub(super) fsyncs_per_step: Option<f64>,
    pub(super) store_fsyncs_per_step: f64,
}

/// From a person's answer to the end of the run that waited for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Signal {
    /// Whether clients came through the API instead of straight to Temporal.
    pub(super) through_api: bool,
    pub(super) runs: u32,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// What runs cost that wait for a person.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Parked {
    pub(super) runs: u32,
    pub(super) park_s: f64,
    /// The process with all runs parked.
    pub(super) rss_bytes: Option<u64>,
    pub(super) rss_bytes_per_run: Option<f64>,
    /// The process that was started after them, with one of them answered.
    pub(super) rss_bytes_restarted: Option<u64>,
    pub(super) server_rss_bytes: Option<u64>,
    pub(super) disk_bytes_per_run: f64,
    pub(super) restart_to_ready_s: f64,
}

/// What a turn costs after so many others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Growth {
    pub(super) turn: u32,
    pub(super) turns: u32,
    pub(super) calls: u32,
    pub(super) ms_per_turn: f64,
    pub(super) history_bytes_per_turn: f64,
}

/// What a killed process costs the runs it worked on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Recovery {
    pub(super) runs: u32,
    pub(super) turns: u32,
    pub(super) calls: u32,
    /// Whether the tool forbids a repeat.
    pub(super) once: bool,
    pub(super) killed_after: u64,
    pub(super) all_complete_s: f64,
    pub(super) expected: u64,
    pub(super) executed: u64,
    pub(super) distinct: u64,
    pub(super) duplicated: u64,
    /// Never executed.
    pub(super) missing: u64,
    /// The model was told that nobody knows whether they were.
    pub(super) unknown: u64,
}
