//! The conditions of a measurement: backend, durability, machine and build.

use std::path::Path;

use serde::Serialize;
use windlass_store::sqlite::Durability;

use super::{args::BenchArgs, backend::Backend, system};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Facts {
    pub(super) backend: String,
    pub(super) durability: &'static str,
    pub(super) machine: Machine,
    pub(super) version: &'static str,
    /// Figures of a `debug` build are not representative.
    pub(super) build: &'static str,
    pub(super) max_cached_runs: usize,
    pub(super) seed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Machine {
    pub(super) cores: usize,
    pub(super) os: &'static str,
    pub(super) arch: &'static str,
    /// Under the data directory.
    pub(super) file_system: Option<String>,
}

impl Facts {
    pub(super) fn gather(backend: &Backend, args: &BenchArgs, data_dir: &Path) -> Self {
        Self {
            backend: backend.name(),
            durability: match args.durability() {
                Durability::Full => "full",
                Durability::Relaxed => "relaxed",
            },
            machine: Machine {
                cores: std::thread::available_parallelism().map_or(1, usize::from),
                os: std::env::consts::OS,
                arch: std::env::consts::ARCH,
                file_system: system::file_system(data_dir),
            },
            version: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            max_cached_runs: args.max_cached_runs,
            seed: args.seed,
        }
    }

    /// The line above the tables.
    pub(super) fn heading(&self) -> String {
        let Self { backend, durability, machine, version, build, .. } = self;
        let disk = machine.file_system.as_deref().unwrap_or("unknown");
        let cores = machine.cores;
        format!("{backend} · {durability} durability · {cores} cores · {disk} · windlass {version} ({build})")
    }

    /// Conditions that make the figures unreliable.
    pub(super) fn warnings(&self) -> Vec<&'static str> {
        let in_memory = matches!(self.machine.file_system.as_deref(), Some("tmpfs" | "ramfs"));
        [
            (self.build == "debug", "this is a debug build, several times slower than `cargo build --release`"),
            (in_memory, "the data directory is in memory, where a sync costs nothing; set TMPDIR or --data-dir"),
        ]
        .into_iter()
        .filter_map(|(so, warning)| so.then_some(warning))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(build: &'static str, file_system: &str) -> Facts {
        let machine = Machine { cores: 2, os: "linux", arch: "x86_64", file_system: Some(file_system.to_owned()) };
        Facts {
            backend: "embedded".into(),
            durability: "full",
            machine,
            version: "0.1.0",
            build,
            max_cached_runs: 1000,
            seed: 1,
        }
    }

    #[test]
    fn the_heading_says_what_the_figures_are_true_of() {
        assert_eq!(
            facts("release", "ext4").heading(),
            "embedded · full durability · 2 cores · ext4 · windlass 0.1.0 (release)"
        );
    }

    #[test]
    fn figures_that_mean_little_are_warned_about() {
        let warnings = |build, file_system| facts(build, file_system).warnings().len();
        assert_eq!([warnings("release", "ext4"), warnings("debug", "ext4"), warnings("debug", "tmpfs")], [0, 1, 2]);
    }
}
