//! `latency`: the time per step of runs that are executed one after another.

use std::{sync::Arc, time::Instant};

use super::{
    probe::{Beats, Probe, gaps},
    progress::Progress,
    reading::{Latency, Reading},
    rig::Rig,
    site::Site,
    stats::{median, percentile, rounded},
    work::Work,
};
use crate::failure::Failure;

/// Warm-up runs: connections, caches and prepared statements are created once.
const WARM_UP: u32 = 2;

pub(super) async fn measure(site: &Site, runs: u32, work: Work, progress: &Progress) -> Result<Vec<Reading>, Failure> {
    let beats = Arc::new(Beats::default());
    let probe = Probe { beats: Some(Arc::clone(&beats)), ledger: None };
    let bar = progress.begin("latency", runs + WARM_UP);
    let (steps, whole) = Rig::with(site, work, probe, async |rig| {
        let (mut steps, mut whole) = (Vec::new(), Vec::new());
        for run in 0..WARM_UP + runs {
            let begun = Instant::now();
            rig.door.complete(rig.next_run()).await?;
            let took = begun.elapsed();
            let gaps = gaps(&beats.take());
            if run >= WARM_UP {
                whole.push(took.as_secs_f64() * 1000.0);
                steps.extend(gaps.iter().map(|gap| gap.as_secs_f64() * 1000.0));
            }
            bar.step();
        }
        Ok((steps, whole))
    })
    .await?;
    let known = |value: Option<f64>| rounded(value.unwrap_or_default());
    Ok(vec![Reading::Latency(Latency {
        through_api: site.through_api,
        runs,
        turns: work.turns,
        calls: work.calls,
        steps: steps.len() as u64,
        ms_per_step_p50: known(percentile(&steps, 50.0)),
        ms_per_step_p99: known(percentile(&steps, 99.0)),
        ms_per_step_mean: rounded(whole.iter().sum::<f64>() / steps.len().max(1) as f64),
        run_ms_p50: known(median(&whole)),
    })])
}
