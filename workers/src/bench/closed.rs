//! `closed`: what many closed runs cost: the start of the process, its memory, lists and counts of runs, disk.

use std::time::Instant;

use super::{
    backend,
    hosted::{Ending, Hosted},
    lists::Timed,
    orders::{Brief, Order, Report},
    progress::Progress,
    reading::{Closed, ClosedRequest, Reading},
    server::ServerSide,
    site::Site,
    stats::{each, rounded},
    system,
    work::Work,
};
use crate::failure::{Failure, failed};

pub(super) async fn measure(
    site: &Site,
    runs: u32,
    work: Work,
    server: &ServerSide,
    progress: &Progress,
) -> Result<Vec<Reading>, Failure> {
    let bar = progress.begin("closed", runs);
    let database = backend::database(&site.data_dir);
    let disk = || Ok::<_, Failure>(system::database_bytes(&database)? + server.disk_bytes()?);

    // After an orderly stop the write-ahead log is checkpointed, so the database file has the size of the runs.
    Hosted::with(site, Brief::of(work), Ending::Stop, async |host| host.order(Order::Look, &bar).await).await?;
    let disk_before = disk()?;

    let brief = Brief { runs, ..Brief::of(work) };
    let close_s = Hosted::with(site, brief, Ending::Stop, async |host| {
        let begun = Instant::now();
        host.order(Order::Close { count: runs }, &bar).await?;
        Ok(begun.elapsed().as_secs_f64())
    })
    .await?;
    let disk_after = disk()?;

    let spawned = Instant::now();
    let asked = Hosted::with(site, Brief::of(work), Ending::Stop, async |host| {
        host.order(Order::Look, &bar).await?;
        let ready_s = spawned.elapsed().as_secs_f64();
        let rss_bytes_ready = host.settled_memory().await;
        let Report::Timed { requests } = host.order(Order::TimeLists { runs }, &bar).await? else {
            return Err(failed("the child process did not say how long lists take"));
        };
        Ok((ready_s, rss_bytes_ready, requests, host.settled_memory().await))
    });
    let (ready_s, rss_bytes_ready, requests, rss_bytes_asked) = asked.await?;

    let mut readings = vec![Reading::Closed(Closed {
        runs,
        close_s: rounded(close_s),
        closed_per_s: rounded(f64::from(runs) / close_s),
        ready_s: rounded(ready_s),
        rss_bytes_ready,
        rss_bytes_asked,
        server_rss_bytes: server.resident_bytes(),
        disk_bytes_per_run: each(disk_after.saturating_sub(disk_before), runs.into()),
    })];
    readings.extend(requests.into_iter().map(|timed| {
        let Timed { request, found, repetitions, first_ms, p50_ms, p99_ms } = timed;
        Reading::ClosedRequest(ClosedRequest { runs, request, found, repetitions, first_ms, p50_ms, p99_ms })
    }));
    Ok(readings)
}
