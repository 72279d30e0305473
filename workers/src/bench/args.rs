//! The arguments of `windlass bench`, and the measurements they select.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use windlass_store::sqlite::Durability;

use super::{backend::Backend, server::ServerSide, work::Work};
use crate::{
    failure::{Failure, usage},
    service::RunWorkerOptions,
};

const EXAMPLES: &str = "\
Examples:
  windlass bench latency                                  the embedded engine, in a temporary directory
  windlass bench all --json > figures.jsonl
  windlass bench throughput --runs 50,200,800 --turns 10
  windlass bench latency --through-api                    directly on Temporal, and through the API
  windlass bench closed --runs 1000000                    lists and counts of a million closed runs
  windlass bench parked --temporal 127.0.0.1:7233 --server-pid $(pgrep -n temporal)

A run has --turns turns; each is a plan of the scripted model and --calls parallel tool calls with results of about 1 KB,
on the real workflow, activities and store. docs/guides/bench.md explains how every figure is measured.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// Metric to measure
    metric: Metric,

    /// Number of runs; with several numbers, the measurement is made once for each [default: depends on the metric]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: Vec<u32>,

    /// Turns per run [default: 20 for latency, 5000 for growth, else 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    turns: Option<u32>,

    /// Parallel tool calls per turn [default: 1 for latency and growth, else 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    calls: Option<u32>,

    /// Repetitions of all measurements
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: u32,

    /// Seed for the tool's results and the moment of the kill
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// Use a tool that is not idempotent
    #[arg(long)]
    once: bool,

    /// Measure latency, throughput and signal also with clients of the HTTP API
    #[arg(long)]
    through_api: bool,

    /// What an acknowledged write survives
    #[arg(long, value_name = "LEVEL", default_value = "full")]
    durability: Level,

    /// Size of the worker's workflow cache; the default is that of `windlass dev`
    #[arg(long, value_name = "N", default_value_t = RunWorkerOptions::default().max_cached_runs)]
    pub(super) max_cached_runs: usize,

    /// Process id of the Temporal server, to measure its CPU and memory, too
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,

    /// Database file of the Temporal server, to add its growth to the store's
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    server_database: Option<PathBuf>,

    /// For first-token: directory with the package `openai` for Python, whose calls are measured, too
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) openai_sdk: Option<PathBuf>,

    /// Child process of `bench tools`: an MCP server on stdin and stdout
    #[arg(long, hide = true)]
    pub(super) tool_server: bool,

    /// Child process of a benchmark
    #[arg(long, hide = true)]
    pub(super) host: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Metric {
    /// Time per step of a single run
    Latency,
    /// Steps per second of many concurrent runs, and CPU per step
    Throughput,
    /// Time from an answer to the end of the run that waited for it
    Signal,
    /// Time from a provider's first token to the client's stream, and to a direct caller of the provider
    FirstToken,
    /// Time per step by the kind of its tool: built-in, HTTP, MCP over stdio and HTTP, an activity elsewhere
    Tools,
    /// Memory and disk of runs that wait for an answer, and their start after a restart
    Parked,
    /// Closed runs: start of the process, memory, lists and counts, disk
    Closed,
    /// Cost of a turn, early and late in a long run
    Growth,
    /// Bytes of the database by table, against what the runs have to keep
    Size,
    /// Recovery after kill -9
    Recovery,
    /// All metrics
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Level {
    /// A crash of the process or the operating system, and a power failure
    Full,
    /// A crash of the process
    Relaxed,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) metric: Metric,
    pub(super) runs: u32,
    pub(super) work: Work,
    pub(super) through_api: bool,
}

impl BenchArgs {
    pub(super) fn durability(&self) -> Durability {
        match self.durability {
            Level::Full => Durability::Full,
            Level::Relaxed => Durability::Relaxed,
        }
    }

    /// The process and the database of the Temporal server.
    pub(super) fn server(&self, backend: &Backend) -> Result<ServerSide, Failure> {
        let server = ServerSide { pid: self.server_pid, database: self.server_database.clone() };
        match backend {
            Backend::Embedded if server != ServerSide::default() => {
                Err(usage("--server-pid and --server-database need a Temporal server; set --temporal"))
            }
            _ => Ok(server),
        }
    }

    /// The measurements of one round, in order.
    pub(super) fn tasks(&self) -> Result<Vec<Task>, Failure> {
        if self.metric == Metric::All {
            let each = Metric::value_variants().iter().filter(|metric| **metric != Metric::All);
            return Ok(each.flat_map(|metric| self.tasks_of(*metric)).collect());
        }
        let (has_runs, has_turns) = (self.metric != Metric::Growth, self.metric.works());
        for (given, has, option) in [
            (!self.runs.is_empty(), has_runs, "--runs"),
            (self.turns.is_some(), has_turns, "--turns"),
            (self.calls.is_some(), has_turns && self.metric != Metric::Tools, "--calls"),
            (self.through_api, self.metric.has_clients(), "--through-api"),
            (self.openai_sdk.is_some(), self.metric == Metric::FirstToken, "--openai-sdk"),
        ] {
            if given && !has {
                let metric = self.metric.name();
                return Err(usage(format!("`bench {metric}` does not use {option}; remove it")));
            }
        }
        Ok(self.tasks_of(self.metric))
    }

    fn tasks_of(&self, metric: Metric) -> Vec<Task> {
        let (default_runs, turns, calls): (&[u32], u32, u32) = match metric {
            Metric::Latency => (&[10], 20, 1),
            Metric::Throughput => (&[200], 5, 2),
            Metric::Signal => (&[200], 5, 2),
            Metric::FirstToken => (&[200], 1, 0),
            Metric::Tools => (&[20], 20, 1),
            Metric::Parked => (&[1_000, 10_000], 5, 2),
            Metric::Closed => (&[10_000], 0, 0),
            Metric::Growth => (&[1], 5_000, 1),
            Metric::Size => (&[200], 5, 2),
            Metric::Recovery => (&[100], 5, 2),
            Metric::All => (&[], 0, 0),
        };
        let runs = if self.runs.is_empty() || metric == Metric::Growth { default_runs } else { &self.runs };
        let work = Work {
            turns: self.turns.unwrap_or(turns),
            calls: self.calls.unwrap_or(calls),
            once: self.once,
            seed: self.seed,
        };
        let doors: &[bool] = match metric {
            Metric::FirstToken => &[true],
            _ if self.through_api && metric.has_clients() => &[false, true],
            _ => &[false],
        };
        let by_each_door =
            |runs| doors.iter().map(move |through_api| Task { metric, runs, work, through_api: *through_api });
        runs.iter().copied().flat_map(by_each_door).collect()
    }
}

impl Task {
    /// Unique among the tasks of a round.
    pub(super) fn name(&self) -> String {
        let door = if self.through_api { "-api" } else { "" };
        format!("{}-{}{door}", self.metric.name(), self.runs)
    }
}

impl Metric {
    /// Whether its runs have turns with calls.
    fn works(self) -> bool {
        !matches!(self, Self::Signal | Self::FirstToken | Self::Parked | Self::Closed)
    }

    /// Whether it can be measured with and without the API.
    fn has_clients(self) -> bool {
        matches!(self, Self::Latency | Self::Throughput | Self::Signal)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Signal => "signal",
            Self::FirstToken => "first-token",
            Self::Tools => "tools",
            Self::Parked => "parked",
            Self::Closed => "closed",
            Self::Growth => "growth",
            Self::Size => "size",
            Self::Recovery => "recovery",
            Self::All => "all",
        }
    }
}
