//! Attacks on the built program: `windlass dev` as a process, with malicious clients, kills, and a full disk.
//!
//! Each test counts what it did and lists its findings. `cargo xtask test` runs the short forms; `cargo xtask hostile`
//! runs the long ones and prints one table.

mod backup;
mod bound_key;
mod clock;
mod connections;
mod corruption;
mod damage;
mod dev;
mod disk_full;
mod heavy_bodies;
mod isolation;
mod kill;
mod many_tools;
mod rate_limited_connections;
mod requests;
mod ssrf;
pub(crate) mod wire;

use std::collections::BTreeMap;

use serde_json::json;

/// The counts and findings of one test.
pub(crate) struct Tally {
    attack: &'static str,
    counts: BTreeMap<&'static str, u64>,
    findings: Vec<String>,
}

impl Tally {
    pub(crate) fn new(attack: &'static str) -> Self {
        Self { attack, counts: BTreeMap::new(), findings: Vec::new() }
    }

    /// `what` is a plural: requests, kills, files, connections.
    pub(crate) fn count(&mut self, what: &'static str, number: u64) {
        *self.counts.entry(what).or_default() += number;
    }

    pub(crate) fn finding(&mut self, text: impl Into<String>) {
        self.findings.push(text.into());
    }

    /// Prints the line that `cargo xtask hostile` reads, and fails if there are findings.
    pub(crate) fn close(self) {
        let Self { attack, counts, findings } = self;
        println!("hostile: {}", json!({"attack": attack, "counts": counts, "findings": findings.len()}));
        assert!(findings.is_empty(), "{attack}: {} findings\n{}", findings.len(), findings.join("\n"));
    }
}
