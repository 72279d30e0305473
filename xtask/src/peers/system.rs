//! The systems and the figures they are compared by.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum System {
    Windlass,
    /// Windlass on a file system in memory, without syncs: what is left when nothing has to be kept.
    NoDisk,
    /// The SDK that Windlass's workflows are written for, on a service that keeps nothing: the limit of the programming model.
    Sdk,
    Temporal,
    Restate,
    Dbos,
    Langgraph,
}

impl System {
    pub(super) const ALL: [Self; 7] =
        [Self::Windlass, Self::NoDisk, Self::Sdk, Self::Temporal, Self::Restate, Self::Dbos, Self::Langgraph];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::NoDisk => "no-disk",
            Self::Sdk => "sdk",
            Self::Temporal => "temporal",
            Self::Restate => "restate",
            Self::Dbos => "dbos",
            Self::Langgraph => "langgraph",
        }
    }

    /// The head of its column.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Windlass => "Windlass",
            Self::NoDisk => "Windlass, nothing kept",
            Self::Sdk => "Temporal SDK alone",
            Self::Temporal => "Temporal dev server",
            Self::Restate => "Restate",
            Self::Dbos => "DBOS",
            Self::Langgraph => "LangGraph",
        }
    }

    /// Whether a program of `xtask/peers` executes its work; else `windlass bench` does.
    pub(super) fn has_program(self) -> bool {
        matches!(self, Self::Sdk | Self::Restate | Self::Dbos | Self::Langgraph)
    }

    /// Whether that program is a crate.
    pub(super) fn has_crate(self) -> bool {
        matches!(self, Self::Sdk | Self::Restate | Self::Dbos)
    }

    /// Whether runs outlive its processes.
    pub(super) fn keeps_runs(self) -> bool {
        self != Self::Sdk
    }

    pub(super) fn named(name: &str) -> Result<Self> {
        let all = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|system| system.name() == name);
        found.with_context(|| format!("there is no system {name}; there are: {}", all()))
    }
}

/// Measured values by the names of `FIGURES`. A figure that cannot be had is not in it.
pub(super) type Figures = BTreeMap<&'static str, f64>;

/// A row of the table.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) field: &'static str,
    pub(super) unit: &'static str,
}

pub(super) const FIGURES: &[Figure] = &[
    Figure { field: "ms_per_step_p50", unit: "ms per step, p50 (one run at a time)" },
    Figure { field: "ms_per_step_p99", unit: "ms per step, p99 (one run at a time)" },
    Figure { field: "steps_per_s", unit: "steps/s (many runs at once)" },
    Figure { field: "cpu_ms_per_step", unit: "CPU ms per step, all processes" },
    Figure { field: "syncs_per_step", unit: "fsyncs per step (one run at a time)" },
    Figure { field: "fsyncs_per_step", unit: "fsyncs per step (many runs at once), by its own count" },
    Figure { field: "disk_bytes_per_step", unit: "disk bytes per step, with log" },
    Figure { field: "rest_bytes_per_step", unit: "disk bytes per step, at rest" },
    Figure { field: "signal_p50_ms", unit: "ms from signal to result, p50" },
    Figure { field: "parked_bytes", unit: "MB of memory with parked runs, all processes" },
    Figure { field: "parked_bytes_per_run", unit: "bytes of memory per parked run" },
    Figure { field: "parked_disk_bytes_per_run", unit: "disk bytes per parked run" },
    Figure { field: "recovery_s", unit: "s from restart after kill -9 to all complete" },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again_and_fields_are_unique() {
        for system in System::ALL {
            assert_eq!(System::named(system.name()).unwrap(), system);
        }
        let fields: std::collections::BTreeSet<_> = FIGURES.iter().map(|figure| figure.field).collect();
        assert_eq!(fields.len(), FIGURES.len());
    }
}
