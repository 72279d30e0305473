//! What was published, what was delivered, and whether that is the same.

use std::collections::HashMap;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::{http::Client, log_page, reader::Seen};

/// The line that is printed.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) metric: &'static str,
    pub(crate) streams: usize,
    pub(crate) runs: usize,
    /// Events written while runs talked.
    pub(crate) published: u64,
    pub(crate) published_per_s: f64,
    /// Frames that readers got of them.
    pub(crate) delivered: u64,
    pub(crate) delivered_per_s: f64,
    /// Streams that got every event of their run once and in order; anything less is an error.
    pub(crate) complete_streams: usize,
    pub(crate) latency_ms_p50: f64,
    pub(crate) latency_ms_p99: f64,
    pub(crate) latency_ms_max: f64,
    /// From the first connection to the last stream that has seen its run wait.
    pub(crate) open_s: f64,
    pub(crate) rss_bytes_before: u64,
    pub(crate) rss_bytes_idle: u64,
    pub(crate) rss_bytes_per_stream: u64,
    pub(crate) rss_bytes_peak: u64,
    pub(crate) server_cpus: f64,
    pub(crate) client_cpus: f64,
}

/// The log of every run, as the store has it: each event's time by its number.
pub(crate) struct Logs(Vec<Log>);

struct Log {
    run: String,
    /// Milliseconds since 1970, in the order of `seq` from 1.
    at: Vec<u64>,
    /// The event after which the run waited for the readers.
    waited: u64,
}

pub(crate) struct Published {
    pub(crate) events: u64,
    pub(crate) seconds: f64,
}

pub(crate) struct Checked {
    pub(crate) delivered: u64,
    /// In order.
    pub(crate) latencies_ms: Vec<f64>,
}

impl Logs {
    pub(crate) async fn read(client: &Client, runs: &[String]) -> Result<Self> {
        let mut logs = Vec::new();
        for run in runs {
            let mut log = Log { run: run.clone(), at: Vec::new(), waited: 0 };
            loop {
                let page = log_page(client, run, log.at.len() as u64).await?;
                if page.is_empty() {
                    break;
                }
                for event in page {
                    log.at.push(event["at"].as_u64().unwrap_or_default());
                    if event["type"] == "await_opened" {
                        log.waited = log.at.len() as u64;
                    }
                }
            }
            logs.push(log);
        }
        Ok(Self(logs))
    }

    /// Events after the wait, and the time from the first to the last of them.
    pub(crate) fn published(&self) -> Published {
        let talk = || self.0.iter().flat_map(|log| &log.at[log.waited as usize..]).copied();
        let ms = talk().max().unwrap_or_default() - talk().min().unwrap_or_default();
        Published { events: talk().count() as u64, seconds: (ms as f64 / 1000.0).max(0.001) }
    }

    /// Every stream must have seen every event of its run once, in order.
    pub(crate) fn check(&self, streams: &[Vec<Seen>]) -> Result<Checked> {
        let mut checked = Checked { delivered: 0, latencies_ms: Vec::new() };
        for (log, streams) in self.0.iter().zip(streams) {
            for seen in streams {
                complete(seen, log.at.len() as u64)
                    .map_err(|fault| anyhow::anyhow!("{fault} in a stream of {}", log.run))?;
                for arrival in seen.iter().filter(|arrival| arrival.seq > log.waited) {
                    checked.delivered += 1;
                    let written = log.at[arrival.seq as usize - 1] as f64;
                    checked.latencies_ms.push((arrival.at as f64 / 1000.0 - written).max(0.0));
                }
            }
        }
        checked.latencies_ms.sort_by(f64::total_cmp);
        Ok(checked)
    }
}

fn complete(seen: &Seen, events: u64) -> Result<()> {
    let mut times: HashMap<u64, u64> = HashMap::new();
    for arrival in seen {
        *times.entry(arrival.seq).or_default() += 1;
    }
    let missing = (1..=events).filter(|seq| !times.contains_key(seq)).count();
    let doubled = times.values().filter(|times| **times > 1).count();
    if missing > 0 || doubled > 0 || times.len() as u64 != events {
        bail!("{missing} of {events} events are missing and {doubled} came twice");
    }
    if !seen.is_sorted_by_key(|arrival| arrival.seq) {
        bail!("events came out of order");
    }
    Ok(())
}

/// Of sorted values; nothing is 0.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * percent / 100).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Arrival;

    #[test]
    fn whatever_is_missing_doubled_or_misplaced_is_found() {
        let said = |seqs: &[u64]| {
            let seen: Seen = seqs.iter().map(|seq| Arrival { seq: *seq, at: 0 }).collect();
            complete(&seen, 3).map_err(|fault| fault.to_string())
        };
        assert_eq!(said(&[1, 2, 3]), Ok(()));
        assert_eq!(said(&[1, 3]).unwrap_err(), "1 of 3 events are missing and 0 came twice");
        assert_eq!(said(&[1, 2, 2, 3]).unwrap_err(), "0 of 3 events are missing and 1 came twice");
        assert_eq!(said(&[1, 2, 3, 4]).unwrap_err(), "0 of 3 events are missing and 0 came twice");
        assert_eq!(said(&[2, 1, 3]).unwrap_err(), "events came out of order");
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        assert_eq!([0, 50, 100].map(|percent| percentile(&[1.0, 2.0, 4.0], percent)), [1.0, 2.0, 4.0]);
        assert_eq!(percentile(&[], 50), 0.0);
    }
}
