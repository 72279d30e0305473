//! Mixed load on `windlass dev` for a long time, with `kill -9` at random moments. A ledger of what the server acknowledged
//! is compared with what it has at the end, and samples of its resources show whether anything grows.
//!
//! The tests run the short form on the debug build. `cargo xtask soak` runs the long one on a release build, with a plot.

mod ledger;
mod line;
mod look;
mod mix;
mod plot;
mod report;
mod verdict;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio::{sync::watch, task::JoinSet, time::MissedTickBehavior};

use self::{ledger::judge, look::Watcher, mix::Client};
use crate::{
    proofs::{dice::Dice, scale},
    sdk::dev::Dev,
};

/// Lengths of the short form and the long one, in seconds.
const SHORT: usize = 25;
const LONG: usize = 600;
const CLIENTS: u64 = 8;

/// When things happen. A short soak has kills in quick succession; a long one lets a process become old.
struct Pace {
    /// A kill comes after a time between these, in milliseconds.
    kills: (u64, u64),
    looks: Duration,
    /// Samples of a younger process, and of the first minutes, are not judged: caches fill.
    warm_up: Duration,
}

impl Pace {
    fn of(seconds: usize) -> Self {
        if seconds < LONG {
            return Self { kills: (1_500, 6_000), looks: Duration::from_secs(1), warm_up: Duration::from_secs(5) };
        }
        Self { kills: (30_000, 600_000), looks: Duration::from_secs(5), warm_up: Duration::from_secs(60) }
    }
}

#[test]
fn a_mixed_load_under_kills_loses_and_doubles_nothing() {
    let seconds = scale("WINDLASS_SOAK_SECONDS", SHORT);
    let seed = scale("WINDLASS_SOAK_SEED", 1) as u64;
    // Where the samples and the plot go.
    let folder = std::env::var_os("WINDLASS_SOAK_FOLDER").map(PathBuf::from);
    crate::support::block_on(async {
        let pace = Pace::of(seconds);
        let mut dev = Dev::start_with(mix::arguments());
        let (up, is_up) = watch::channel(true);
        let (stop, stopped) = watch::channel(false);
        let client = Client::new(&dev.listen, is_up, stopped);
        let mut watcher = Watcher::new(dev.data_dir(), dev.pid());
        let mut clients: JoinSet<()> = (0..CLIENTS).map(|number| client.clone().work(number, seed)).collect();
        let (begun, mut dice, mut kills) = (Instant::now(), Dice::seeded(seed), 0);
        let mut next_kill = Instant::now() + kill_after(&mut dice, &pace);
        let mut looks = tokio::time::interval(pace.looks);
        // A look that a restart delayed is not followed by another one at once: rates over a moment mean nothing.
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        looks.tick().await;
        while begun.elapsed() < Duration::from_secs(seconds as u64) {
            looks.tick().await;
            watcher.look(&client.take_latencies());
            if Instant::now() >= next_kill {
                up.send_replace(false);
                tokio::task::block_in_place(|| {
                    dev.kill();
                    dev.start_again();
                });
                watcher.has_restarted(dev.pid());
                up.send_replace(true);
                kills += 1;
                next_kill = Instant::now() + kill_after(&mut dice, &pace);
            }
        }
        stop.send_replace(true);
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
        let findings = judge(&client).await;
        let verdict = verdict::of(watcher.samples(), &pace.warm_up, seconds >= LONG);
        println!("soak: {}", report::line(seconds, seed, kills, &client, &findings, &verdict));
        if let Some(folder) = folder {
            report::write(&folder, watcher.samples(), watcher.restarts()).unwrap();
        }
        assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
        assert!(verdict.holds(), "{verdict:?}");
    });
}

fn kill_after(dice: &mut Dice, pace: &Pace) -> Duration {
    let (earliest, latest) = pace.kills;
    Duration::from_millis(earliest + dice.roll(latest - earliest))
}
