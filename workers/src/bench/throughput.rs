//! `throughput`: many concurrent runs, and their CPU time and disk writes.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{
    backend::Opened,
    probe::Probe,
    progress::{Bar, Progress},
    reading::{Reading, Throughput},
    rig::Rig,
    server::ServerSide,
    site::Site,
    stats::{each, rounded},
    system,
    work::Work,
};
use crate::failure::{Failure, failed};

const WARM_UP: u32 = 20;

pub(super) async fn measure(
    site: &Site,
    runs: u32,
    work: Work,
    server: &ServerSide,
    progress: &Progress,
) -> Result<Vec<Reading>, Failure> {
    let bar = progress.begin("throughput", runs + WARM_UP);
    let (before, wall, after) = Rig::with(site, work, Probe::default(), async |rig| {
        all(rig, WARM_UP, &bar).await?;
        let before = Meters::read(&rig.opened, server)?;
        let begun = Instant::now();
        all(rig, runs, &bar).await?;
        let wall = begun.elapsed();
        Ok((before, wall, Meters::read(&rig.opened, server)?))
    })
    .await?;
    let steps = work.steps() * u64::from(runs);
    let cpu = |before: Option<Duration>, after: Option<Duration>| {
        Some(rounded(after?.saturating_sub(before?).as_secs_f64() * 1000.0 / steps as f64))
    };
    Ok(vec![Reading::Throughput(Throughput {
        through_api: site.through_api,
        runs,
        turns: work.turns,
        calls: work.calls,
        steps,
        wall_s: rounded(wall.as_secs_f64()),
        steps_per_s: rounded(steps as f64 / wall.as_secs_f64()),
        runs_per_s: rounded(f64::from(runs) / wall.as_secs_f64()),
        cpu_ms_per_step: cpu(before.cpu, after.cpu),
        server_cpu_ms_per_step: cpu(before.server_cpu, after.server_cpu),
        disk_bytes_per_step: each(after.disk.saturating_sub(before.disk), steps),
        fsyncs_per_step: after.syncs.zip(before.syncs).map(|(after, before)| each(after - before, steps)),
        store_fsyncs_per_step: each(after.store_syncs - before.store_syncs, steps),
    })])
}

/// Starts all of them, then waits for all of them.
pub(super) async fn all(rig: &Rig, runs: u32, bar: &Bar) -> Result<(), Failure> {
    let mut under_way = JoinSet::new();
    for _ in 0..runs {
        let (door, run) = (rig.door.clone(), rig.next_run());
        under_way.spawn(async move { door.complete(run).await });
    }
    while let Some(ended) = under_way.join_next().await {
        ended.map_err(|error| failed(format!("a client of a run panicked: {error}")))??;
        bar.step();
    }
    Ok(())
}

/// Counters that only grow.
struct Meters {
    cpu: Option<Duration>,
    server_cpu: Option<Duration>,
    disk: u64,
    syncs: Option<u64>,
    store_syncs: u64,
}

impl Meters {
    fn read(opened: &Opened, server: &ServerSide) -> Result<Self, Failure> {
        Ok(Self {
            cpu: system::cpu_time(std::process::id()),
            server_cpu: server.cpu_time(),
            disk: system::database_bytes(&opened.database)? + server.disk_bytes()?,
            syncs: opened.syncs(),
            store_syncs: opened.store_syncs(),
        })
    }
}
