//! A wall clock that jumps by hours under the store. Runs complete, and their logs have no gaps.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tempfile::TempDir;
use windlass_core::time::Timestamp;
use windlass_store::{
    Clock,
    sqlite::{Options, SqliteStore},
    system_clock,
};

use super::Tally;
use crate::{
    proofs::{dice::Dice, scale},
    support::{
        agents::{agent, calls, says, script},
        checks::log_is_gapless_with_one_terminal_event_at_its_end,
        world::{World, client, scripts},
    },
};

const DAY: u64 = 24 * 60 * 60 * 1000;

#[tokio::test(flavor = "multi_thread")]
async fn runs_complete_while_the_clock_jumps() {
    let runs = scale("WINDLASS_HOSTILE_STARTS", 20);
    let seed = scale("WINDLASS_HOSTILE_SEED", 1) as u64;
    let dir = TempDir::new().unwrap();
    // From one day behind to one day ahead.
    let ahead = Arc::new(AtomicU64::new(DAY));
    let (system, shown) = (system_clock(), Arc::clone(&ahead));
    let clock: Clock = Arc::new(move || Timestamp(system().0 - DAY + shown.load(Ordering::Relaxed)));
    let store = SqliteStore::open(Options { clock, ..Options::new(dir.path().join("windlass.db")) }).unwrap();
    let turns = [calls(&[("echo", json!({"n": 1}))]), calls(&[("echo", json!({"n": 2}))]), says("done")];
    let world = World::with_store(client().await, Arc::new(store), dir, scripts([("work", script(&turns))]));
    world.start_worker();

    let mut dice = Dice::seeded(seed);
    let jumping = tokio::spawn(async move {
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        for jumps in 1u64.. {
            pace.tick().await;
            ahead.store(dice.roll(2 * DAY), Ordering::Relaxed);
            JUMPS.store(jumps, Ordering::Relaxed);
        }
    });
    let mut tally = Tally::new("a clock that jumps");
    for _ in 0..runs {
        let (run, output) = Box::pin(world.answer_of(agent("work", json!([{"name": "echo"}])), "go")).await;
        if output.final_message.as_ref().map(|message| message.plain_text()).as_deref() != Some("done") {
            tally.finding(format!("{run}: {output:?}"));
        }
        log_is_gapless_with_one_terminal_event_at_its_end(&world.events(&run).await);
    }
    jumping.abort();
    let listed = world.ops.store().runs(Default::default()).await.unwrap().runs.len();
    if listed != runs.min(50) {
        tally.finding(format!("{listed} of {runs} runs are listed"));
    }
    tally.count("runs", runs as u64);
    tally.count("clock jumps", JUMPS.load(Ordering::Relaxed));
    tally.close();
}

/// How often the clock was set.
static JUMPS: AtomicU64 = AtomicU64::new(0);
