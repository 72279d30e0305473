use clap::Parser;
use serde_json::{Value, json};

use super::{facts::Machine, reading::Signal, work::Work, *};

#[derive(Debug, Parser)]
struct Typed {
    #[command(flatten)]
    bench: BenchArgs,
}

fn tasks(line: &str) -> Result<Vec<(&'static str, u32, Work)>, String> {
    let words = ["bench"].into_iter().chain(line.split_whitespace());
    let typed = Typed::try_parse_from(words).map_err(|error| error.to_string())?;
    let tasks = typed.bench.tasks().map_err(|failure| failure.to_string())?;
    typed.bench.server(&Backend::Embedded).map_err(|failure| failure.to_string())?;
    Ok(tasks.into_iter().map(|task| (task.metric.name(), task.runs, task.work)).collect())
}

fn work(turns: u32, calls: u32) -> Work {
    Work { turns, calls, once: false, seed: 1 }
}

#[test]
fn every_metric_has_its_own_sizes() {
    let expected = [
        ("latency", 10, work(20, 1)),
        ("throughput", 200, work(5, 2)),
        ("signal", 200, work(5, 2)),
        ("first-token", 200, work(1, 0)),
        ("tools", 20, work(20, 1)),
        ("parked", 1_000, work(5, 2)),
        ("parked", 10_000, work(5, 2)),
        ("closed", 10_000, work(0, 0)),
        ("growth", 1, work(5000, 1)),
        ("size", 200, work(5, 2)),
        ("recovery", 100, work(5, 2)),
    ];
    assert_eq!(tasks("all").unwrap(), expected);
    for metric in
        ["latency", "throughput", "signal", "first-token", "tools", "parked", "closed", "growth", "size", "recovery"]
    {
        let own: Vec<_> = expected.iter().copied().filter(|(name, _, _)| *name == metric).collect();
        assert_eq!(tasks(metric).unwrap(), own);
    }
}

#[test]
fn sizes_can_be_chosen() {
    let chosen = Work { turns: 7, calls: 3, once: true, seed: 9 };
    assert_eq!(
        tasks("throughput --runs 5,6 --turns 7 --calls 3 --seed 9 --once").unwrap(),
        [("throughput", 5, chosen), ("throughput", 6, chosen)]
    );
    let small = tasks("all --runs 3 --turns 4").unwrap();
    let sizes: Vec<_> = small.into_iter().map(|(metric, runs, work)| (metric, runs, work.turns)).collect();
    assert_eq!(
        sizes,
        [
            ("latency", 3, 4),
            ("throughput", 3, 4),
            ("signal", 3, 4),
            ("first-token", 3, 4),
            ("tools", 3, 4),
            ("parked", 3, 4),
            ("closed", 3, 4),
            ("growth", 1, 4),
            ("size", 3, 4),
            ("recovery", 3, 4)
        ]
    );
}

#[test]
fn through_api_adds_a_second_measurement() {
    let typed = Typed::try_parse_from(["bench", "all", "--through-api", "--runs", "3"]).unwrap();
    let named: Vec<_> = typed.bench.tasks().unwrap().iter().map(Task::name).collect();
    let expected = [
        "latency-3",
        "latency-3-api",
        "throughput-3",
        "throughput-3-api",
        "signal-3",
        "signal-3-api",
        "first-token-3-api",
        "tools-3",
        "parked-3",
        "closed-3",
        "growth-1",
        "size-3",
        "recovery-3",
    ];
    assert_eq!(named, expected);
}

#[test]
fn invalid_combinations_are_rejected() {
    let cases = [
        ("speed", "possible values: latency, throughput"),
        ("growth --runs 2", "`bench growth` does not use --runs; remove it"),
        ("signal --turns 2", "`bench signal` does not use --turns; remove it"),
        ("parked --calls 2", "`bench parked` does not use --calls; remove it"),
        ("closed --turns 2", "`bench closed` does not use --turns; remove it"),
        ("parked --through-api", "`bench parked` does not use --through-api; remove it"),
        ("tools --calls 2", "`bench tools` does not use --calls; remove it"),
        ("first-token --turns 2", "`bench first-token` does not use --turns; remove it"),
        ("first-token --through-api", "`bench first-token` does not use --through-api; remove it"),
        ("signal --openai-sdk x", "`bench signal` does not use --openai-sdk; remove it"),
        ("latency --runs 0", "0 is not in 1.."),
        ("latency --durability some", "possible values: full, relaxed"),
        ("throughput --server-pid 1", "need a Temporal server; set --temporal"),
    ];
    for (line, expected) in cases {
        let refusal = tasks(line).unwrap_err();
        assert!(refusal.contains(expected), "{line}: {refusal}");
    }
}

#[test]
fn a_line_carries_its_metric_its_figures_and_what_they_are_true_of() {
    let facts = Facts {
        backend: "embedded".into(),
        durability: "full",
        machine: Machine { cores: 2, os: "linux", arch: "x86_64", file_system: None },
        version: "0.1.0",
        build: "release",
        max_cached_runs: 1000,
        seed: 1,
    };
    let reading = Reading::Signal(Signal { through_api: false, runs: 200, p50_ms: 2.5, p99_ms: 4.0 });
    let line: Value = serde_json::to_value(Line { reading: &reading, round: 1, facts: &facts }).unwrap();
    assert_eq!(
        line,
        json!({
            "metric": "signal", "through_api": false, "runs": 200, "p50_ms": 2.5, "p99_ms": 4.0, "round": 1, "backend": "embedded",
            "durability": "full", "machine": {"cores": 2, "os": "linux", "arch": "x86_64", "file_system": null},
            "version": "0.1.0", "build": "release",
            "max_cached_runs": 1000, "seed": 1,
        })
    );
}
