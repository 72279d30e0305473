//! Differential testing at the protocol: the same script is played on the real server and on the engine, and everything
//! both answer is compared. No SDK takes part; the script is worker and client.
//!
//! `script` says what can be done, `cases` and `generate` make scripts, `play` carries one out on one server, `normal`
//! and `ignored` say what is comparable, `compare` finds the first difference, `shrink` makes its script small.

mod cases;
mod chance;
mod compare;
mod generate;
mod ignored;
pub(crate) mod normal;
mod peer;
mod play;
mod run;
mod script;
mod shrink;

use self::run::{Named, run};
use crate::support::block_on;

/// How many random scripts `cargo xtask test` plays; `cargo xtask diff --seeds N` plays more.
const SEEDS: u64 = 24;

#[test]
fn known_traps() {
    let only = std::env::var("WINDLASS_DIFF_CASE").ok();
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
    let scripts = cases::all().into_iter().filter(|case| wanted(case.name));
    let scripts: Vec<Named> =
        scripts.map(|case| Named { name: format!("case `{}`", case.name), script: case.script }).collect();
    let count = scripts.len();
    let summary = block_on(run(scripts.into_iter()));
    println!("cases run: {count}, {summary}");
    summary.assert_no_divergence();
}

#[test]
fn random_scripts() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a seed is a number"));
    let first = number("WINDLASS_DIFF_SEED").unwrap_or_default();
    let count = number("WINDLASS_DIFF_SEEDS").unwrap_or(SEEDS);
    let count = usize::try_from(count).expect("a machine can count the seeds it plays");
    let scripts = (0..count).map(|number| {
        let seed = first + number as u64;
        Named { name: format!("seed {seed}"), script: generate::script(seed) }
    });
    let summary = block_on(run(scripts));
    println!("seeds run: {count}, {summary}");
    summary.assert_no_divergence();
}
