//! The result as a line of JSON, the samples as a table of values, and the plot.

use std::{fmt::Write as _, fs, io, path::Path};

use serde_json::{Value, json};

use super::{look::Sample, mix::Client, plot, verdict::Verdict};

pub(super) fn line(
    seconds: usize,
    seed: u64,
    kills: u64,
    client: &Client,
    findings: &[String],
    verdict: &Verdict,
) -> Value {
    let counts = client.counts();
    json!({
        "seconds": seconds, "seed": seed, "kills": kills, "runs": counts.runs, "requests": counts.requests,
        "requests_sent_again": counts.repeated, "kinds": counts.kinds, "findings": findings.len(),
        "memory_growth_per_hour": verdict.resident, "latency_growth_per_hour": verdict.latency,
        "holds": verdict.holds() && findings.is_empty(),
    })
}

/// Writes `soak.csv` and `soak.svg`.
pub(super) fn write(folder: &Path, samples: &[Sample], restarts: &[f64]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("soak.csv"), csv(samples))?;
    fs::write(folder.join("soak.svg"), plot::svg(samples, restarts))
}

fn csv(samples: &[Sample]) -> String {
    let mut text = "seconds,process_age,rss_bytes,threads,open_files,database_bytes,log_bytes,p50_ms,p99_ms,\
                    short_runs_per_s,cpus\n"
        .to_owned();
    let known = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
    for sample in samples {
        let Sample { at, age, resident, threads, files, database, log, p50, p99, runs_per_s, cpus } = sample;
        let (p50, p99) = (known(*p50), known(*p99));
        let _ = writeln!(
            text,
            "{at:.1},{age:.1},{resident},{threads},{files},{database},{log},{p50},{p99},{runs_per_s:.2},{cpus:.2}"
        );
    }
    text
}

#[test]
fn a_sample_is_a_row_and_an_unknown_value_is_empty() {
    let sample = Sample { at: 5.0, resident: 1024, p50: Some(1.5), ..Sample::default() };
    let text = csv(&[sample]);
    let (head, row) = text.split_once('\n').unwrap();
    assert_eq!(head.split(',').count(), 11);
    assert_eq!(row, "5.0,0.0,1024,0,0,0,0,1.50,,0.00,0.00\n");
}
