//! Figures of Windlass, and of its worker on Temporal's dev server, by `windlass bench`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    install::Installed,
    options::Sizes,
    processes, syncs,
    system::{Figures, System},
};
use crate::bench::{Server, readings_with};

/// Runs whose syncs are counted, and the runs that `windlass bench latency` executes before them.
const COUNTED: u32 = 10;
const FEW: u32 = 2;
/// A file system in memory.
const MEMORY: &str = "/dev/shm";

/// The binary, and where servers keep their files.
pub(super) struct Bench<'a> {
    pub(super) windlass: &'a Path,
    pub(super) installed: &'a Installed,
    pub(super) home: PathBuf,
    pub(super) sizes: Sizes,
}

impl Bench<'_> {
    pub(super) fn measure(&self, system: System) -> Result<Figures> {
        let mut figures = Figures::new();
        let Sizes { latency, throughput, signal, parked, recovery } = self.sizes;
        let all = [
            ("latency", latency),
            ("throughput", throughput),
            ("signal", signal),
            ("size", throughput),
            ("parked", parked),
            ("recovery", recovery),
        ];
        for (metric, runs) in all {
            let has = match system {
                System::NoDisk => ["latency", "throughput", "signal"].contains(&metric),
                // Its database is another one.
                System::Temporal => metric != "size",
                _ => true,
            };
            if has {
                self.add(&mut figures, system, metric, runs)?;
            }
        }
        if system != System::NoDisk {
            figures.extend(self.syncs(system)?.map(|syncs| ("syncs_per_step", syncs)));
        }
        Ok(figures)
    }

    /// Of the benchmark's process from its start to its end, and of the server meanwhile.
    fn syncs(&self, system: System) -> Result<Option<f64>> {
        let mut command = Command::new(self.windlass);
        command.args(["bench", "latency", "--json", "--runs", &COUNTED.to_string()]);
        let server = match system {
            System::Temporal => Some(Server::start(&self.installed.temporal, &self.home)?),
            _ => None,
        };
        if let Some(server) = &server {
            server.measured_by(&mut command);
        }
        let Some((command, summary)) = syncs::of(&command) else { return Ok(None) };
        let heads: Vec<u32> = server.iter().map(Server::pid).collect();
        let (measured, of_server) = match heads.is_empty() {
            true => (readings_with(command, |_| ())?, Some(0)),
            false => syncs::during(&heads, || readings_with(command, |_| ()))?,
        };
        let steps = measured.first().and_then(|reading| reading["steps"].as_f64()).unwrap_or_default();
        let with_warm_up = steps * f64::from(COUNTED + FEW) / f64::from(COUNTED);
        let all = syncs::read(&summary).zip(of_server).map(|(own, server)| own + server);
        Ok(all.map(|syncs| syncs as f64 / with_warm_up))
    }

    fn add(&self, figures: &mut Figures, system: System, metric: &'static str, runs: u32) -> Result<()> {
        let mut command = Command::new(self.windlass);
        command.args(["bench", metric, "--json", "--runs", &runs.to_string()]);
        let memory = Path::new(MEMORY).join(format!("windlass-bench-{}", std::process::id()));
        let server = match system {
            System::Temporal => Some(Server::start(&self.installed.temporal, &self.home)?),
            System::NoDisk => {
                command.args(["--durability", "relaxed", "--data-dir"]).arg(&memory);
                None
            }
            _ => None,
        };
        let mut fresh = 0;
        if let Some(server) = &server {
            server.measured_by(&mut command);
            fresh = processes::settled_memory(&[server.pid()]);
        }
        let readings = readings_with(command, |_| ());
        let _ = fs::remove_dir_all(&memory);
        let readings = readings?;
        let reading = readings.first().with_context(|| format!("`windlass bench {metric}` measured nothing"))?;
        figures.extend(figures_of(metric, reading, fresh));
        Ok(())
    }
}

/// The figures of a reading. `fresh` is the memory of a server that has no runs.
fn figures_of(metric: &str, reading: &Value, fresh: u64) -> Figures {
    let number = |field: &str| reading[field].as_f64();
    let zero = |field: &str| number(field).unwrap_or_default();
    let parked = || {
        let (runs, server) = (number("runs")?, zero("server_rss_bytes"));
        let grown = if server > 0.0 { server - fresh as f64 } else { 0.0 };
        Some((number("rss_bytes")? + server, number("rss_bytes_per_run")? + grown / runs))
    };
    let found: Vec<(&'static str, Option<f64>)> = match metric {
        "latency" => {
            vec![("ms_per_step_p50", number("ms_per_step_p50")), ("ms_per_step_p99", number("ms_per_step_p99"))]
        }
        "throughput" => vec![
            ("steps_per_s", number("steps_per_s")),
            ("cpu_ms_per_step", number("cpu_ms_per_step").map(|cpu| cpu + zero("server_cpu_ms_per_step"))),
            ("fsyncs_per_step", number("fsyncs_per_step")),
            ("disk_bytes_per_step", number("disk_bytes_per_step")),
        ],
        "signal" => vec![("signal_p50_ms", number("p50_ms"))],
        "size" => vec![("rest_bytes_per_step", number("bytes_per_step"))],
        "parked" => vec![
            ("parked_bytes", parked().map(|(total, _)| total)),
            ("parked_bytes_per_run", parked().map(|(_, each)| each)),
            ("parked_disk_bytes_per_run", number("disk_bytes_per_run")),
        ],
        _ => vec![("recovery_s", number("all_complete_s"))],
    };
    found.into_iter().filter_map(|(field, value)| Some((field, value?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cpu_is_of_worker_and_server() {
        let reading = json!({"steps_per_s": 10.0, "cpu_ms_per_step": 0.5, "server_cpu_ms_per_step": 2.0});
        let figures = figures_of("throughput", &reading, 0);
        assert_eq!(figures, [("steps_per_s", 10.0), ("cpu_ms_per_step", 2.5)].into());
    }

    #[test]
    fn memory_of_parked_runs_is_of_worker_and_server() {
        let reading = json!({
            "runs": 100, "rss_bytes": 5000, "rss_bytes_per_run": 10.0, "server_rss_bytes": 3000, "disk_bytes_per_run": 7.0,
        });
        let expected = [("parked_bytes", 8000.0), ("parked_bytes_per_run", 30.0), ("parked_disk_bytes_per_run", 7.0)];
        assert_eq!(figures_of("parked", &reading, 1000), expected.into());
        let embedded = json!({"runs": 100, "rss_bytes": 5000, "rss_bytes_per_run": 10.0, "server_rss_bytes": null});
        assert_eq!(figures_of("parked", &embedded, 0)["parked_bytes_per_run"], 10.0);
    }
}
