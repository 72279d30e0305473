//! `signal`: the time from sending an answer until the client has the result of the run that waited for it.

use std::time::Instant;

use super::{
    probe::Probe,
    progress::Progress,
    reading::{Reading, Signal},
    rig::Rig,
    site::Site,
    stats::{percentile, rounded},
    work::Work,
};
use crate::failure::Failure;

const WARM_UP: u32 = 5;

pub(super) async fn measure(site: &Site, runs: u32, work: Work, progress: &Progress) -> Result<Vec<Reading>, Failure> {
    let bar = progress.begin("signal", runs + WARM_UP);
    let took = Rig::with(site, work, Probe::default(), async |rig| {
        let mut took = Vec::new();
        for index in 0..WARM_UP + runs {
            let waiting = rig.door.park(rig.next_run()).await?;
            // Answered only after everything before it: from here on the run does nothing but wait, and so does the
            // client.
            rig.ops.status(waiting.run()).await?;
            let sent = Instant::now();
            waiting.answer().await?;
            if index >= WARM_UP {
                took.push(sent.elapsed().as_secs_f64() * 1000.0);
            }
            bar.step();
        }
        Ok(took)
    })
    .await?;
    let at = |percent: f64| rounded(percentile(&took, percent).unwrap_or_default());
    Ok(vec![Reading::Signal(Signal { through_api: site.through_api, runs, p50_ms: at(50.0), p99_ms: at(99.0) })])
}
