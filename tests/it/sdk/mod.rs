//! Unmodified clients: PyPI's `mantyx-sdk`, at the versions that must work, against `windlass dev`.
//!
//! The scenarios are Python (`harness/`): each does something with the SDK and prints what it got. The expected
//! output is in `expected/`, and compared whole. The SDKs come from PyPI by `cargo xtask tools`, unchanged.

mod client;
pub(crate) mod dev;
mod expected;
mod kills;
mod models;
mod table;

use std::{
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use serde_json::Value;

pub(crate) use self::table::differences;
use self::{
    client::{Peer, Scenario, Sdk},
    dev::Dev,
    expected::{Case, HASTY, KILLS, ORDINARY, STOPS},
    kills::End,
    table::Table,
};

/// Scenarios at a time: they mostly wait.
const AT_ONCE: usize = 6;

/// Each of these cases with each version that has it.
fn pairs(cases: &'static [Case]) -> Vec<(&'static Case, Sdk)> {
    let with = |case: &'static Case| Sdk::ALL.into_iter().filter(|sdk| *sdk >= case.since).map(move |sdk| (case, sdk));
    cases.iter().flat_map(with).collect()
}

/// What was wrong, if anything.
fn judge(case: &Case, sdk: Sdk, facts: Result<Value, String>) -> Option<String> {
    let found = match facts {
        Ok(facts) => differences(&(case.expected)(sdk), &facts),
        Err(why) => vec![why],
    };
    (!found.is_empty()).then(|| found.join("\n"))
}

/// Outcomes as they come in, from several threads.
#[derive(Default)]
struct Outcomes(Mutex<Table>);

impl Outcomes {
    fn enter(&self, case: &Case, sdk: Sdk, facts: Result<Value, String>) {
        let wrong = judge(case, sdk, facts);
        let index = names().iter().position(|name| *name == case.name).unwrap();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).enter(index, sdk, wrong);
    }
}

fn names() -> Vec<&'static str> {
    [ORDINARY, HASTY, KILLS, STOPS].into_iter().flatten().map(|case| case.name).collect()
}

/// All of them on one server, several at a time.
fn play(cases: &'static [Case], dev: &Dev, card: &str, outcomes: &Outcomes) {
    let url = dev.url.as_str();
    let waiting = Mutex::new(pairs(cases).into_iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((case, sdk)) = next() {
                    outcomes.enter(case, sdk, Scenario::start(case.name, sdk, url, card).facts());
                }
            });
        }
    });
}

#[test]
fn unmodified_sdks_work() {
    let began = Instant::now();
    let (peer, outcomes) = (Peer::start(), Outcomes::default());
    let card = peer.card.as_str();
    thread::scope(|scope| {
        scope.spawn(|| play(ORDINARY, &Dev::start("60s"), card, &outcomes));
        scope.spawn(|| play(HASTY, &Dev::start("1s"), card, &outcomes));
        scope.spawn(|| kills::play(KILLS, End::Kill, card, &outcomes));
        scope.spawn(|| kills::play(STOPS, End::Stop, card, &outcomes));
    });
    let table = outcomes.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("\n{}in {:.0} s; - is not in that version", table.render(&names()), began.elapsed().as_secs_f64());
    let failures = table.failures(&names());
    assert!(failures.is_empty(), "\n{failures}");
}
