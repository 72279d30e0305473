//! Differential testing at the protocol: the same script is played on the real server and on the engine, and everything
//! both answer is compared. No SDK takes part; the script is worker and client.

mod cases;
mod chance;
mod compare;
mod generate;
mod ignored;
mod normal;
mod peer;
mod play;
mod script;

use self::{compare::first_divergence, peer::Peer, play::play};
use crate::support::block_on;

#[test]
fn known_traps() {
    block_on(async {
        let only = std::env::var("WINDLASS_DIFF_CASE").ok();
        let mut failed = 0;
        for (name, script) in cases::all() {
            if only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let (real, engine) = tokio::join!(play(Peer::Real, &script), play(Peer::Engine, &script));
            if only.is_some() {
                for o in &real.observations {
                    println!("## {}\n{}", o.what, o.seen);
                }
            }
            match first_divergence(&real.observations, &engine.observations) {
                Some(d) => {
                    failed += 1;
                    println!("{name}: DIVERGES\n{}", d.report)
                }
                None => println!(
                    "{name}: {} observations, {} histories, {} events",
                    real.observations.len(),
                    real.histories,
                    real.events
                ),
            }
        }
        assert_eq!(failed, 0);
    });
}

#[test]
fn random_scripts() {
    use futures_util::StreamExt;
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let seeds: Vec<u64> = match number("WINDLASS_DIFF_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("WINDLASS_DIFF_SEEDS").unwrap_or(40)).collect(),
    };
    block_on(async {
        let started = std::time::Instant::now();
        let results = futures_util::stream::iter(seeds)
            .map(|seed| async move {
                let script = generate::script(seed);
                let (real, engine) = tokio::join!(play(Peer::Real, &script), play(Peer::Engine, &script));
                (seed, real, engine)
            })
            .buffer_unordered(16)
            .collect::<Vec<_>>()
            .await;
        let (mut h, mut e, mut o, mut bad) = (0, 0, 0, 0);
        for (seed, real, engine) in results {
            h += real.histories;
            e += real.events;
            o += real.observations.len();
            if let Some(d) = first_divergence(&real.observations, &engine.observations) {
                bad += 1;
                println!("seed {seed} diverges\n{}", d.report);
            }
            for x in &real.observations {
                if x.what.contains("does not come")
                    || x.seen.contains("still waiting")
                    || x.what.contains("lists do not")
                {
                    println!("seed {seed} PROBLEM {}: {}", x.what, x.seen)
                }
            }
        }
        println!("{h} histories {e} events {o} observations {bad} bad, {:?}", started.elapsed());
        assert_eq!(bad, 0);
    });
}

#[test]
fn print_script() {
    if let Some(seed) = std::env::var("WINDLASS_DIFF_PRINT").ok().and_then(|v| v.parse::<u64>().ok()) {
        for s in 0..seed {
            for (i, a) in generate::script(s).iter().enumerate() {
                println!("{s}: {}. {a:?}", i + 1);
            }
        }
    }
}
