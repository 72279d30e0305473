//! `parked`: memory and disk of many waiting runs, and how soon they can be answered after a restart.

use std::time::Instant;

use super::{
    backend,
    hosted::{Ending, Hosted},
    orders::{Brief, Order},
    progress::Progress,
    reading::{Parked, Reading},
    server::ServerSide,
    site::Site,
    stats::{each, rounded},
    system,
    work::Work,
};
use crate::failure::Failure;

/// Runs before the measured ones. All but the last are answered at once; the last waits for the process that parks.
const WARM_UP: u32 = 20;

pub(super) async fn measure(
    site: &Site,
    runs: u32,
    work: Work,
    server: &ServerSide,
    progress: &Progress,
) -> Result<Vec<Reading>, Failure> {
    let bar = progress.begin("parked", runs);
    let database = backend::database(&site.data_dir);
    let disk = || Ok::<_, Failure>(system::database_bytes(&database)? + server.disk_bytes()?);
    let brief = Brief { runs: WARM_UP + runs, ..Brief::of(work) };

    // After an orderly stop the write-ahead log is checkpointed, so the database file has the size of the runs.
    Hosted::with(site, brief.clone(), Ending::Stop, async |host| {
        host.order(Order::Park { first: 0, count: WARM_UP }, &bar).await?;
        for run in 1..WARM_UP {
            host.order(Order::Answer { run }, &bar).await?;
        }
        Ok(())
    })
    .await?;
    let disk_before = disk()?;

    let (rss_before, park_s, rss) = Hosted::with(site, brief.clone(), Ending::Stop, async |host| {
        host.order(Order::Answer { run: 0 }, &bar).await?;
        let before = host.settled_memory().await;
        let begun = Instant::now();
        host.order(Order::Park { first: WARM_UP, count: runs }, &bar).await?;
        let took = begun.elapsed();
        Ok((before, took.as_secs_f64(), host.settled_memory().await))
    })
    .await?;
    let server_rss_bytes = server.resident_bytes();
    let disk_after = disk()?;

    let spawned = Instant::now();
    let (restart_to_ready_s, rss_restarted) = Hosted::with(site, brief, Ending::Desert, async |host| {
        host.order(Order::Answer { run: WARM_UP }, &bar).await?;
        Ok((spawned.elapsed().as_secs_f64(), host.settled_memory().await))
    })
    .await?;

    Ok(vec![Reading::Parked(Parked {
        runs,
        park_s: rounded(park_s),
        rss_bytes: rss,
        rss_bytes_per_run: rss.zip(rss_before).map(|(after, before)| each(after.saturating_sub(before), runs.into())),
        rss_bytes_restarted: rss_restarted,
        server_rss_bytes,
        disk_bytes_per_run: each(disk_after.saturating_sub(disk_before), runs.into()),
        restart_to_ready_s: rounded(restart_to_ready_s),
    })])
}
