//! `windlass bench`: latency, throughput, memory and recovery of runs on this machine.
//!
//! The run workflow, its activities and the store are the real ones, on the embedded engine or any Temporal server. The model
//! is scripted and the tool returns at once, so the figures are the cost of the runtime itself. One module per metric;
//! `work` defines a run, `rig` starts backend and worker, `host` is the child process that is stopped and killed.
//! `docs/guides/bench.md` explains the figures.

mod api;
mod args;
mod backend;
mod closed;
mod direct;
mod door;
mod facts;
mod first_token;
mod growth;
mod host;
mod hosted;
mod latency;
mod lists;
mod orders;
mod parked;
mod probe;
mod progress;
mod provider;
mod reading;
mod recovery;
mod rig;
mod server;
mod signal;
mod site;
mod size;
mod stats;
mod system;
mod table;
mod throughput;
mod tool_server;
mod tools;
mod work;

use std::path::{Path, PathBuf};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub use self::args::BenchArgs;
use self::{
    args::{Metric, Task},
    backend::Backend,
    facts::Facts,
    progress::Progress,
    reading::Reading,
    server::ServerSide,
    site::{Ground, Site},
};
use crate::{failure::Failure, output::Output, temporal::Connect};

/// Measures on the embedded engine, or on a Temporal server if one is given.
pub(crate) async fn run(
    args: BenchArgs,
    temporal: Option<Connect>,
    data_dir: Option<&Path>,
    out: Output,
    interrupted: CancellationToken,
) -> Result<(), Failure> {
    let backend = temporal.map_or(Backend::Embedded, Backend::Address);
    if args.tool_server {
        return tool_server::serve_stdio();
    }
    if args.host {
        return Box::pin(host::serve(backend, &args)).await;
    }
    let (tasks, server) = (args.tasks()?, args.server(&backend)?);
    let ground = Ground::prepare(data_dir)?;
    let facts = Facts::gather(&backend, &args, ground.path());
    facts.warnings().iter().for_each(|warning| out.note(format_args!("windlass: {warning}")));
    if !out.json {
        out.line(facts.heading());
    }
    let bench = Bench { server, sdk: args.openai_sdk.clone(), out, facts };
    for round in 1..=args.repeat {
        for group in tasks.chunk_by(|one, other| one.metric == other.metric) {
            let mut readings = Vec::new();
            for task in group {
                let site = Site {
                    backend: backend.clone(),
                    durability: args.durability(),
                    max_cached_runs: args.max_cached_runs,
                    data_dir: ground.path().join(format!("{}-{round}", task.name())),
                    task_queue: format!("bench-{}", uuid::Uuid::now_v7().simple()),
                    through_api: task.through_api,
                    interrupted: interrupted.clone(),
                };
                let measured = bench.measure(&site, *task).await?;
                bench.print_lines(&measured, round)?;
                readings.extend(measured);
                discard(&ground, &site.data_dir);
            }
            if !out.json {
                out.line(format_args!("\n{}", table::render(&readings, out.table_width())));
            }
        }
    }
    Ok(())
}

/// Shared by all measurements of a command.
struct Bench {
    server: ServerSide,
    /// A directory with the vendor's SDK for Python.
    sdk: Option<PathBuf>,
    out: Output,
    facts: Facts,
}

impl Bench {
    async fn measure(&self, site: &Site, task: Task) -> Result<Vec<Reading>, Failure> {
        let Task { metric, runs, work, .. } = task;
        let progress = Progress::new();
        match metric {
            Metric::Latency => Box::pin(latency::measure(site, runs, work, &progress)).await,
            Metric::Throughput => Box::pin(throughput::measure(site, runs, work, &self.server, &progress)).await,
            Metric::Signal => Box::pin(signal::measure(site, runs, work, &progress)).await,
            Metric::FirstToken => Box::pin(first_token::measure(site, runs, self.sdk.as_deref(), &progress)).await,
            Metric::Tools => Box::pin(tools::measure(site, runs, work, &progress)).await,
            Metric::Parked => Box::pin(parked::measure(site, runs, work, &self.server, &progress)).await,
            Metric::Closed => Box::pin(closed::measure(site, runs, work, &self.server, &progress)).await,
            Metric::Size => Box::pin(size::measure(site, runs, work, &progress)).await,
            Metric::Growth => Box::pin(growth::measure(site, work, &progress)).await,
            Metric::Recovery => Box::pin(recovery::measure(site, runs, work, &progress)).await,
            Metric::All => Ok(Vec::new()),
        }
    }

    fn print_lines(&self, readings: &[Reading], round: u32) -> Result<(), Failure> {
        if self.out.json {
            for reading in readings {
                self.out.document(&Line { reading, round, facts: &self.facts })?;
            }
        }
        Ok(())
    }
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    reading: &'a Reading,
    round: u32,
    #[serde(flatten)]
    facts: &'a Facts,
}

/// Deletes a measurement's data, unless --data-dir was set.
fn discard(ground: &Ground, data_dir: &Path) {
    if matches!(ground, Ground::Temporary(_)) {
        // On failure, it is deleted with the whole temporary directory.
        let _ = std::fs::remove_dir_all(data_dir);
    }
}

#[cfg(test)]
mod tests;
