//! The results: one reading is one line of JSON or one row of a table.

use serde::Serialize;

/// A result. Fields are only ever added, because programs parse them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "metric", rename_all = "snake_case")]
pub(super) enum Reading {
    Latency(Latency),
    Throughput(Throughput),
    Signal(Signal),
    #[serde(rename = "first-token")]
    FirstToken(FirstToken),
    Tools(ToolStep),
    Parked(Parked),
    Closed(Closed),
    #[serde(rename = "closed-request")]
    ClosedRequest(ClosedRequest),
    Growth(Growth),
    Size(Size),
    Recovery(Recovery),
}

/// Time per step of single runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Latency {
    /// Whether clients used the API instead of Temporal.
    pub(super) through_api: bool,
    pub(super) runs: u32,
    pub(super) turns: u32,
    pub(super) calls: u32,
    pub(super) steps: u64,
    pub(super) ms_per_step_p50: f64,
    pub(super) ms_per_step_p99: f64,
    /// Of the whole run, as its client sees it.
    pub(super) ms_per_step_mean: f64,
    pub(super) run_ms_p50: f64,
}

/// Steps per second of many concurrent runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Throughput {
    /// Whether clients used the API instead of Temporal.
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

/// Time per step of runs that call a tool of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ToolStep {
    pub(super) kind: String,
    pub(super) runs: u32,
    pub(super) turns: u32,
    /// Of the whole run, as its client sees it, by turn.
    pub(super) ms_per_step_p50: f64,
    pub(super) ms_per_step_p99: f64,
}

/// Time from an answer to the end of the run that waited for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Signal {
    /// Whether clients used the API instead of Temporal.
    pub(super) through_api: bool,
    pub(super) runs: u32,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Time from a provider's first token to the client of a run, and to direct callers of the provider.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct FirstToken {
    pub(super) runs: u32,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) direct_p50_ms: f64,
    pub(super) direct_p99_ms: f64,
    pub(super) sdk_p50_ms: Option<f64>,
    pub(super) sdk_p99_ms: Option<f64>,
    /// The difference to the direct call.
    pub(super) added_p50_ms: f64,
    pub(super) added_p99_ms: f64,
}

/// Cost of runs that wait for an answer.
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

/// Cost of runs that have ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Closed {
    pub(super) runs: u32,
    pub(super) close_s: f64,
    pub(super) closed_per_s: f64,
    /// From starting the process again to its first answer.
    pub(super) ready_s: f64,
    pub(super) rss_bytes_ready: Option<u64>,
    /// After all requests.
    pub(super) rss_bytes_asked: Option<u64>,
    pub(super) server_rss_bytes: Option<u64>,
    pub(super) disk_bytes_per_run: f64,
}

/// Time of a list or a count with so many closed runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ClosedRequest {
    pub(super) runs: u32,
    pub(super) request: String,
    /// Runs on the page, or counted.
    pub(super) found: u64,
    pub(super) repetitions: u32,
    /// The first time in the process.
    pub(super) first_ms: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Cost of a turn at a position of a long run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Growth {
    pub(super) turn: u32,
    pub(super) turns: u32,
    pub(super) calls: u32,
    pub(super) ms_per_turn: f64,
    pub(super) history_bytes_per_turn: f64,
}

/// Bytes of a table and its indexes, or of the whole database, with everything checkpointed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Size {
    /// `all` for the whole file.
    pub(super) table: String,
    pub(super) runs: u32,
    pub(super) turns: u32,
    pub(super) calls: u32,
    pub(super) steps: u64,
    pub(super) bytes: u64,
    pub(super) bytes_per_step: f64,
    /// Bytes of the rows and keys in the pages.
    pub(super) payload_bytes: Option<u64>,
    /// The canonical bytes of all messages of the runs.
    pub(super) content_bytes: Option<u64>,
    /// How much larger the file is than its content.
    pub(super) ratio: Option<f64>,
}

/// Outcome of runs after kill -9.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Recovery {
    pub(super) runs: u32,
    pub(super) turns: u32,
    pub(super) calls: u32,
    /// Whether the tool is not idempotent.
    pub(super) once: bool,
    pub(super) killed_after: u64,
    pub(super) all_complete_s: f64,
    pub(super) expected: u64,
    pub(super) executed: u64,
    pub(super) distinct: u64,
    pub(super) duplicated: u64,
    /// Never executed.
    pub(super) missing: u64,
    /// Calls with the status `outcome_unknown`.
    pub(super) unknown: u64,
}
