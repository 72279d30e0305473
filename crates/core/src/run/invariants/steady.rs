//! Invariant 11 over long runs: the same work costs the same bytes at turn ten and at turn eighty.

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::{
    Lived, checks, ensure, live,
    script::{Case, long_case},
};

/// More turns than anything is remembered for.
pub(super) const TURNS: u32 = 80;
/// From here on whatever is remembered for a while is complete.
const SETTLED: u32 = 70;
/// Numbers get longer: those of turns, awaits and events. A single byte more per event and turn would be far above.
const DIGITS: usize = 256;

fn costs_stay(case: Case) -> Lived {
    let world = live(case)?;
    checks::all(&world)?;
    let ledger = &world.ledger;
    ensure!(ledger.plans.len() > TURNS as usize, "the run ended after {} turns", ledger.plans.len());
    let (early, late) = (ledger.traffic[&10].bytes, ledger.traffic[&(TURNS - 1)].bytes);
    ensure!(late <= early + DIGITS, "turn 10 took {early} bytes, the last one {late}");
    let (early, late) = (ledger.carried[&SETTLED], ledger.carried[&(TURNS - 1)]);
    ensure!(late <= early + DIGITS / 4, "{early} bytes were carried at turn {SETTLED}, at the last one {late}");
    Ok(())
}

#[test]
fn a_long_run_costs_per_turn_what_a_short_one_does() {
    let every = Config::default();
    let cases = every.cases.div_ceil(40);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..every });
    let lived = runner.run(&long_case(TURNS), |case| costs_stay(case).map_err(TestCaseError::fail));
    lived.unwrap_or_else(|broken| panic!("{broken}"));
}
