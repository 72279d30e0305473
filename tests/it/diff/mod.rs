//! Differential testing at the protocol: the same script is played on the real server and on the engine, and everything
//! both answer is compared. No SDK takes part; the script is worker and client.

mod cases;
mod chance;
mod compare;
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
